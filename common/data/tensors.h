/* SPDX-License-Identifier: MIT
 *
 * Named fp32 tensors in a safetensors file: checkpoints, saved gradients. The format is
 *
 *     8 bytes   length of the header, little-endian
 *     header    JSON: {"__metadata__": {text: text ...}, name: {"dtype", "shape", "data_offsets"} ...}
 *     data      the tensors one after the other, without gaps
 *
 * so any safetensors library reads what is written here. Ours begin with {"__metadata__":{"checksum":"<16 hex digits>":
 * a checksum of the whole file with zeros in place of the digits. A file without it is not read: nothing would tell a
 * flipped bit from a weight. Reading needs cJSON; without it tensors_read says so (EXIT_RESOURCE).
 */
#ifndef DATA_TENSORS_H
#define DATA_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#define TENSOR_MAX_DIMS 4

struct tensor_view {
    const char *name;
    size_t shape[TENSOR_MAX_DIMS];
    int dims;     /* 0: one number */
    size_t count; /* elements: the product of shape */
    float *data;  /* host */
};

struct tensor_text { /* an entry of the metadata */
    const char *key, *value;
};

/* Writes the file by file_write_atomic. Names, keys and values are UTF-8; neither is owned. EXIT_RESOURCE on failure.
 */
int tensors_write(const char *path, const struct tensor_view *views, size_t count, const struct tensor_text *metadata,
                  size_t metadata_count);

struct tensor_file {
    struct tensor_view *views; /* in the order of the data */
    size_t count;
    void *data, *header; /* owned: the file's bytes (views point into them) and the parsed header */
};

/* Reads a file whole and checks all of it. EXIT_BAD_FILE with place, found and expected if any byte is not as written;
 * *file is then empty. Allocates at most the file's size and 1 MiB. */
int tensors_read(const char *path, struct tensor_file *file);
void tensors_close(struct tensor_file *file);

/* NULL if there is none of this name; the texts live as long as the file. */
const struct tensor_view *tensors_find(const struct tensor_file *file, const char *name);
const char *tensors_metadata(const struct tensor_file *file, const char *key);

/* Largest difference of two tensors of one size, relative to b: max|a - b| / max|b|. A NaN or infinity in either gives
 * NaN, before all else; 0 / 0 is 0. */
double tensor_difference(const float *a, const float *b, size_t count);

#endif
