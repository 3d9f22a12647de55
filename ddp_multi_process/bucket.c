/* SPDX-License-Identifier: MIT
 *
 * Bucket assignment: see bucket.h for the rule. A bucket that is still open is a chain of tensors; closing it copies
 * the chain behind the buckets closed before.
 */
#include "bucket.h"

#include <stdbool.h>
#include <stdlib.h>

#include "sys/exit_codes.h"
#include "sys/log.h"

#define END_OF_CHAIN (-1)

/* The one open bucket of a type. */
struct open_bucket {
    int type;
    int head, tail; /* chain of positions in the walk */
    size_t bytes;
    int closed; /* buckets of this type closed so far: which limit holds */
};

struct walk {
    struct bucket_layout *layout;
    struct open_bucket *open;
    int open_count;
    int *next; /* [count] chains */
    const int *order;
    int placed; /* tensors in closed buckets */
};

static int tensor_at(const struct walk *walk, int position)
{
    return walk->order ? walk->order[position] : position;
}

static struct open_bucket *bucket_of_type(struct walk *walk, int type)
{
    for (int i = 0; i < walk->open_count; i++)
        if (walk->open[i].type == type)
            return &walk->open[i];
    struct open_bucket *fresh = &walk->open[walk->open_count++];
    *fresh = (struct open_bucket){.type = type, .head = END_OF_CHAIN};
    return fresh;
}

static void append(struct walk *walk, struct open_bucket *bucket, int position, size_t bytes)
{
    if (bucket->head == END_OF_CHAIN)
        bucket->head = position;
    else
        walk->next[bucket->tail] = position;
    bucket->tail = position;
    walk->next[position] = END_OF_CHAIN;
    bucket->bytes += bytes;
}

static void close_bucket(struct walk *walk, struct open_bucket *bucket)
{
    struct bucket_layout *layout = walk->layout;
    for (int position = bucket->head; position != END_OF_CHAIN; position = walk->next[position])
        layout->tensors[walk->placed++] = tensor_at(walk, position);
    layout->bytes[layout->buckets] = bucket->bytes;
    layout->first[++layout->buckets] = walk->placed;
    bucket->head = END_OF_CHAIN;
    bucket->bytes = 0;
    bucket->closed++;
}

/* The open bucket whose first tensor came earliest; NULL: none is left. */
static struct open_bucket *earliest_open(struct walk *walk)
{
    struct open_bucket *earliest = NULL;
    for (int i = 0; i < walk->open_count; i++)
        if (walk->open[i].head != END_OF_CHAIN && (!earliest || walk->open[i].head < earliest->head))
            earliest = &walk->open[i];
    return earliest;
}

int bucket_assign(struct bucket_layout *layout, const size_t *bytes, const int *types, const int *order, int count,
                  const size_t *limits, int limit_count)
{
    size_t room = (size_t)count + 1;
    *layout = (struct bucket_layout){.first = calloc(room, sizeof(int)),
                                     .tensors = calloc(room, sizeof(int)),
                                     .bytes = calloc(room, sizeof(size_t))};
    struct walk walk = {.layout = layout,
                        .order = order,
                        .open = calloc(room, sizeof(struct open_bucket)),
                        .next = calloc(room, sizeof(int))};
    bool complete = layout->first && layout->tensors && layout->bytes && walk.open && walk.next;
    if (complete) {
        for (int position = 0; position < count; position++) {
            int tensor = tensor_at(&walk, position);
            struct open_bucket *bucket = bucket_of_type(&walk, types ? types[tensor] : 0);
            append(&walk, bucket, position, bytes[tensor]);
            int limit = bucket->closed < limit_count ? bucket->closed : limit_count - 1;
            if (bucket->bytes >= limits[limit])
                close_bucket(&walk, bucket);
        }
        for (struct open_bucket *rest; (rest = earliest_open(&walk));)
            close_bucket(&walk, rest);
    } else {
        log_error("no memory for the bucket layout of %d parameters", count);
        bucket_layout_free(layout);
    }
    free(walk.open);
    free(walk.next);
    return complete ? EXIT_OK : EXIT_RESOURCE;
}

void bucket_layout_free(struct bucket_layout *layout)
{
    free(layout->first);
    free(layout->tensors);
    free(layout->bytes);
    *layout = (struct bucket_layout){0};
}
