/* SPDX-License-Identifier: MIT
 *
 * See play.h.
 */
#include "play.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SCENE_LIMIT_S 60

static void set_variable(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void enter(void (*body)(void), const struct scene *scene)
{
    signal(SIGSEGV, SIG_DFL); /* cmocka's and the sanitizers' handlers would hide the signal from waitpid */
    signal(SIGBUS, SIG_DFL);
    alarm(SCENE_LIMIT_S);
    set_variable("CUDA_VISIBLE_DEVICES", scene->visible);
    set_variable("SOFTGPU_DEVICES", scene->devices);
    if (scene->address_space) {
        struct rlimit limit = {scene->address_space, scene->address_space};
        EXPECT(!setrlimit(RLIMIT_AS, &limit));
    }
    struct soft_settings settings = scene->settings;
    if (settings.memory_bytes == 0)
        settings.memory_bytes = 16u << 20;
    EXPECT_OK(softConfigure(&settings));
    body();
    fflush(stderr);
    _exit(0);
}

int play_status(void (*body)(void), const struct scene *scene)
{
    fflush(stdout);
    fflush(stderr);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        enter(body, scene);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

void play(void (*body)(void), const struct scene *scene)
{
    assert_int_equal(play_status(body, scene), 0);
}

softStream_t new_stream(int device)
{
    softStream_t stream;
    EXPECT_OK(softSetDevice(device));
    EXPECT_OK(softStreamCreateWithFlags(&stream, softStreamNonBlocking));
    return stream;
}

void *new_memory(int device, size_t bytes)
{
    void *pointer;
    EXPECT_OK(softSetDevice(device));
    EXPECT_OK(softMalloc(&pointer, bytes));
    return pointer;
}

void *new_pinned(size_t bytes)
{
    void *pointer;
    EXPECT_OK(softMallocHost(&pointer, bytes));
    return pointer;
}

void read_back(void *host, const void *device_memory, size_t bytes)
{
    int kept;
    EXPECT_OK(softGetDevice(&kept));
    softStream_t stream = new_stream(soft_device_map(soft_device_of_pointer(device_memory))->ordinal);
    void *pinned = new_pinned(bytes);
    EXPECT_OK(softMemcpyAsync(pinned, device_memory, bytes, softMemcpyDeviceToHost, stream));
    EXPECT_OK(softStreamSynchronize(stream));
    memcpy(host, pinned, bytes);
    EXPECT_OK(softStreamDestroy(stream));
    EXPECT_OK(softSetDevice(kept)); /* pinned memory stays: to free it would wait for held streams too */
}

static void wait_at_gate(softStream_t stream, const struct soft_what *what, void *arguments)
{
    (void)stream;
    (void)what;
    struct gate *gate = *(struct gate **)arguments;
    while (soft_signal_read(&gate->open) == 0)
        soft_signal_wait(&gate->open, 0, 0, SOFT_NO_DEADLINE);
    soft_acquire(gate); /* what the scene did before it opened the gate is in order, also for the thread sanitizer */
}

void gate_close(struct gate *gate, softStream_t stream)
{
    gate->open.value = 0;
    struct soft_what what = {.kind = SOFT_TASK_LAUNCH, .name = "gate"};
    EXPECT_OK(soft_enqueue(stream, &what, wait_at_gate, &gate, sizeof(gate)));
}

void gate_open(struct gate *gate)
{
    soft_release(gate);
    soft_signal_set(&gate->open, 1);
}

softError_t launch_on(softStream_t stream, soft_body *body, void *pointer, size_t bytes, unsigned blocks)
{
    struct soft_cost cost = {.name = "test_kernel", .flops = 2, .bytes = 8};
    struct soft_span span = {pointer, bytes, true};
    void *translated;
    softError_t error = softTranslate(stream, cost.name, &span, &translated);
    return error ? error : softLaunch(stream, &cost, body, &translated, sizeof(translated), blocks);
}

void add_one(const void *arguments, unsigned block, unsigned blocks)
{
    (void)block;
    (void)blocks;
    ++**(uint32_t *const *)arguments;
}
