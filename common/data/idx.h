/* SPDX-License-Identifier: MIT
 *
 * IDX, the format of MNIST's files (Y. LeCun, C. Cortes, C. Burges): a magic number 0, 0, type, dimensions (a byte
 * each), the size of each dimension as a big-endian 32-bit number, then the values, the last dimension running fastest.
 * Only the type 8, unsigned byte, is used by MNIST and read here.
 *
 * Files come from anywhere, so nothing in them is believed: every size is checked against the file's length, and the
 * file must end exactly where its header says.
 */
#ifndef DATA_IDX_H
#define DATA_IDX_H

#include <stddef.h>
#include <stdint.h>

#define IDX_MAX_DIMENSIONS 3
#define IDX_MAX_BYTES ((size_t)1 << 30) /* of a file, unpacked too; MNIST's largest has 47 MB, EMNIST's 547 MB */

struct idx {
    int dimensions;
    size_t size[IDX_MAX_DIMENSIONS];
    const uint8_t *values; /* [size[0]][size[1]]..., inside the bytes that were parsed */
};

/* Reads `bytes` at `data`, which must hold an IDX file of this many dimensions, each at least 1; allocates nothing.
 * `name` is for messages. EXIT_BAD_FILE (reported with byte position, found and expected) for anything else. */
int idx_parse(struct idx *idx, const char *name, const void *data, size_t bytes, int dimensions);

/* The same of a file that was compressed by gzip: the sizes in its header, which must agree with the length at the end
 * of the compressed file, bound what is allocated; at most IDX_MAX_BYTES. *content := the unpacked file, which idx points into; the caller
 * frees. EXIT_RESOURCE in a build without zlib. */
int idx_parse_gzip(struct idx *idx, const char *name, const void *data, size_t bytes, int dimensions, void **content);

/* Checks that labels hold one value per image, each below `classes`: EXIT_BAD_FILE if not, as above. */
int idx_check_labels(const char *name, const struct idx *labels, const struct idx *images, unsigned classes);

#endif
