/* SPDX-License-Identifier: MIT
 *
 * A text: any file, its bytes are the tokens (vocabulary 256). Sample i is the window of block + 1 bytes from byte
 * i (block + 1) on: its first `block` bytes are the inputs, the same shifted by one are the targets. Windows do not
 * overlap; the last tenth of them, rounded down, is the test set, and what is left at the end of the file is not used.
 */
#ifndef DATA_TEXT_H
#define DATA_TEXT_H

#include "data/dataset.h"

#define TEXT_VOCABULARY 256

/* The same from memory, which is not owned: dataset_open_text reads a file and calls this. */
void text_open(struct dataset *dataset, const void *text, size_t bytes);

#endif
