/* SPDX-License-Identifier: MIT
 *
 * Scenes of the soft GPU's tests. Settings are fixed by the first use of a device, so each scene is played by a child
 * process of its own: the test program itself opens no device.
 */
#ifndef TESTS_SOFTGPU_PLAY_H
#define TESTS_SOFTGPU_PLAY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/internal.h"

struct scene {
    struct soft_settings settings; /* memory_bytes 0: 16 MiB */
    const char *visible;           /* CUDA_VISIBLE_DEVICES; NULL: unset */
    const char *devices;           /* SOFTGPU_DEVICES; NULL: unset */
    size_t address_space;          /* ulimit -v in bytes; 0: none */
};

/* The child's wait status; it is killed after a minute. */
int play_status(void (*body)(void), const struct scene *scene);
/* Fails the running test unless the scene ends well. */
void play(void (*body)(void), const struct scene *scene);

/* In a scene: ends it with file, line and the last error's sentence. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s is false; last error: %s\n", __FILE__, __LINE__, #condition,                    \
                    softErrorDetail());                                                                                \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define EXPECT_OK(call) EXPECT((call) == softSuccess)
/* The call fails with this error, and the sentence contains the words. */
#define EXPECT_FAILS(call, error, words)                                                                               \
    do {                                                                                                               \
        EXPECT((call) == (error));                                                                                     \
        EXPECT(strstr(softErrorDetail(), (words)) != NULL);                                                            \
        EXPECT(softGetLastError() == (error));                                                                         \
    } while (0)

#if defined(__SANITIZE_ADDRESS__)
#define PLAY_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define PLAY_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PLAY_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define PLAY_THREAD_SANITIZER 1
#endif
#endif

/* Things that scenes need; all end the scene on failure. */
softStream_t new_stream(int device);
void *new_memory(int device, size_t bytes);
void *new_pinned(size_t bytes);
void read_back(void *host, const void *device_memory, size_t bytes); /* through a stream of its own */

/* A closed gate holds up a stream until it is opened. */
struct gate {
    struct soft_signal open;
};
void gate_close(struct gate *gate, softStream_t stream);
void gate_open(struct gate *gate);

/* Launches body(pointer) on the stream; one block unless said. The pointer is translated and checked for `bytes`. */
softError_t launch_on(softStream_t stream, soft_body *body, void *pointer, size_t bytes, unsigned blocks);
void add_one(const void *arguments, unsigned block, unsigned blocks); /* *(uint32_t *)pointer += 1 */

#endif
