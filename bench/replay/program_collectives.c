/* SPDX-License-Identifier: MIT
 *
 * Programs: collectives, tied to their facts by number.
 */
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "program_build.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

double collective_bytes(const char *operation, uint64_t count, uint32_t type, int ranks)
{
    static const int sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2}; /* NCCL's types in their order */
    double bytes = (double)count * (type < sizeof(sizes) / sizeof(sizes[0]) ? sizes[type] : 4);
    bool part = !strcmp(operation, "all_gather") || !strcmp(operation, "reduce_scatter");
    return part ? bytes * ranks : bytes;
}

static int compare_facts(const void *a, const void *b)
{
    const struct soft_record_facts *x = *(const struct soft_record_facts *const *)a,
                                   *y = *(const struct soft_record_facts *const *)b;
    return (x->number > y->number) - (x->number < y->number);
}

static const struct soft_record_facts *find_facts(const struct soft_record_facts **facts, size_t count, uint32_t number)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (facts[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && facts[low]->number == number ? facts[low] : NULL;
}

static int tie_collectives(struct build *build, const struct soft_record_facts **facts, size_t count)
{
    struct program *program = build->program;
    for (int s = 0; s < program->stream_count; s++)
        for (uint32_t i = 0; i < program->streams[s].count; i++) {
            struct task *task = &program->streams[s].tasks[i];
            if (task->kind != TASK_COLLECTIVE)
                continue;
            const struct soft_record_facts *found = find_facts(facts, count, task->number);
            if (!found) {
                log_error("%s: a collective %s has the number %u, expected one of the facts of %zu collectives",
                          program->path, task->name, task->number, count);
                return EXIT_BAD_FILE;
            }
            const char *operation = record_string(build->record, found->name);
            program->collectives[program->collective_count] =
                (struct collective){.communicator = found->communicator,
                                    .sequence = found->sequence,
                                    .operation = operation,
                                    .bytes = collective_bytes(operation, found->count, found->type, found->ranks),
                                    .rank = found->rank,
                                    .ranks = found->ranks,
                                    .root = found->root};
            task->number = program->collective_count++;
        }
    return EXIT_OK;
}

int build_collectives(struct build *build)
{
    const struct record_file *record = build->record;
    struct program *program = build->program;
    const struct soft_record_facts **facts = malloc((record->count + 1) * sizeof(*facts));
    size_t count = 0, tasks = 0;
    for (int s = 0; s < program->stream_count; s++)
        for (uint32_t i = 0; i < program->streams[s].count; i++)
            tasks += program->streams[s].tasks[i].kind == TASK_COLLECTIVE;
    program->collectives = malloc((tasks + 1) * sizeof(*program->collectives));
    if (!facts || !program->collectives) {
        free(facts);
        return build_no_memory(build);
    }
    for (uint64_t i = 0; i < record->count; i++)
        if (record->entries[i].kind == SOFT_RECORD_FACTS)
            facts[count++] = record_facts(&record->entries[i]);
    if (count)
        qsort(facts, count, sizeof(*facts), compare_facts);
    int status = tie_collectives(build, facts, count);
    free(facts);
    return status;
}
