/* SPDX-License-Identifier: MIT
 *
 *     kernels-test-VENDOR [--cores N] [--dump FILE | --compare FILE | --identical FILE] [CASE...]
 *
 * Runs the cases (those whose names begin with a CASE). Exit code 0; 1 if a case failed; 77 if no device answers.
 */
#include "harness.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dump.h"
#include "gpu/backend.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/random.h"

#define GUARD 256        /* bytes before and behind each buffer */
#define SENTINEL 0xA5
#define BUFFERS_MAX 24   /* of one case at a time */
#define EXIT_SKIPPED 77

cudaStream_t test_stream;
const size_t test_sizes[] = {0, 1, 7, 31, 32, 33, 1025, 100003};
const size_t test_size_count = sizeof test_sizes / sizeof test_sizes[0];

static const char *case_name;
static bool case_failed;

struct buffer {
    unsigned char *base; /* device: guard, offset, bytes, guard */
    unsigned char *user;
    size_t bytes, whole;
};
static struct buffer buffers[BUFFERS_MAX];
static int buffer_count;

void test_fail(const char *format, ...)
{
    if (case_failed)
        return; /* the first difference says enough */
    case_failed = true;
    va_list arguments;
    va_start(arguments, format);
    printf("    %s: ", case_name);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}

static void must(int error, const char *what)
{
    if (!error)
        return;
    printf("    %s: %s failed: %s\n", case_name ? case_name : "start", what, cudaGetErrorString((cudaError_t)error));
    exit(EXIT_CHECK_FAILED);
}
#define MUST(call) must((int)(call), #call)

void *test_memory(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (memory)
        return memory;
    fprintf(stderr, "out of memory: %zu bytes\n", bytes);
    exit(EXIT_RESOURCE);
}

/* ---- buffers ------------------------------------------------------------------------------------------------------------ */

static void copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    void *staging = NULL;
    if (bytes == 0)
        return;
    MUST(cudaMallocHost(&staging, bytes));
    if (kind == cudaMemcpyHostToDevice)
        memcpy(staging, from, bytes);
    MUST(kind == cudaMemcpyHostToDevice ? cudaMemcpyAsync(to, staging, bytes, kind, test_stream)
                                        : cudaMemcpyAsync(staging, from, bytes, kind, test_stream));
    MUST(cudaStreamSynchronize(test_stream));
    if (kind == cudaMemcpyDeviceToHost)
        memcpy(to, staging, bytes);
    MUST(cudaFreeHost(staging));
}

void *test_device(const void *host, size_t bytes, size_t offset)
{
    if (buffer_count == BUFFERS_MAX) {
        fprintf(stderr, "%s: more than %d buffers\n", case_name, BUFFERS_MAX);
        exit(EXIT_CHECK_FAILED);
    }
    struct buffer *b = &buffers[buffer_count++];
    void *pointer = NULL;
    b->bytes = bytes;
    b->whole = GUARD + offset + bytes + GUARD;
    MUST(cudaMalloc(&pointer, b->whole));
    b->base = pointer;
    b->user = b->base + GUARD + offset;
    MUST(cudaMemsetAsync(b->base, SENTINEL, b->whole, test_stream));
    copy(b->user, host, bytes, cudaMemcpyHostToDevice);
    return b->user;
}

void test_read(void *host, const void *device, size_t bytes) { copy(host, device, bytes, cudaMemcpyDeviceToHost); }

/* Bytes [begin, end) of the whole must still be sentinels. */
static void check_guard(const unsigned char *whole, size_t begin, size_t end, size_t user)
{
    for (size_t i = begin; i < end; i++)
        if (whole[i] != SENTINEL)
            test_fail("a byte %s the buffer was written, at %td", i < user ? "before" : "behind", (ptrdiff_t)i - (ptrdiff_t)user);
}

void test_release(void)
{
    for (int i = 0; i < buffer_count; i++) {
        const struct buffer *b = &buffers[i];
        unsigned char *whole = test_memory(b->whole);
        copy(whole, b->base, b->whole, cudaMemcpyDeviceToHost);
        const size_t user = (size_t)(b->user - b->base);
        check_guard(whole, 0, user, user);
        check_guard(whole, user + b->bytes, b->whole, user);
        free(whole);
        MUST(cudaFree(b->base));
    }
    buffer_count = 0;
}

void test_launch(int error, const char *what)
{
    if (error)
        test_fail("%s: %s", what, cudaGetErrorString((cudaError_t)error));
}

/* ---- inputs and checks --------------------------------------------------------------------------------------------------- */

void test_random(float *x, size_t n, uint32_t sequence)
{
    for (size_t i = 0; i < n; i++)
        x[i] = random_normal(20240229, random_stream(RANDOM_DATA, sequence), i);
}

void test_specials(float *x, size_t n)
{
    const float specials[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-45f, -1e-45f, 1e-39f, 3.4028235e38f, -3.4028235e38f,
                              1.1754944e-38f, 88.0f, -88.0f, 20.0f, -20.0f};
    const size_t count = sizeof specials / sizeof specials[0];
    if (n < 31)
        return;
    for (size_t i = 0; i < count; i++) {
        x[2 * i] = specials[i];
        x[n - 1 - i] = specials[i];
    }
}

void test_floats(const char *label, const float *got, const double *expected, size_t n, double relative, double absolute)
{
    for (size_t i = 0; i < n; i++) {
        const double rounded = (float)expected[i]; /* overflow to infinity is right */
        const double wanted = isinf(rounded) ? rounded : expected[i];
        if (!dump_close_enough(got[i], wanted, relative, absolute)) {
            test_fail("%s[%zu of %zu]: got %.9g, expected %.9g", label, i, n, (double)got[i], wanted);
            break;
        }
    }
    if (!dump_floats(case_name, label, got, n, relative, absolute))
        test_fail("%s differs from the other run", label);
}

void test_bytes(const char *label, const void *got, const void *expected, size_t bytes)
{
    const unsigned char *a = got, *b = expected;
    for (size_t i = 0; i < bytes; i++) {
        if (a[i] != b[i]) {
            test_fail("%s: byte %zu of %zu: got %02x, expected %02x", label, i, bytes, a[i], b[i]);
            break;
        }
    }
    if (!dump_bytes(case_name, label, got, bytes))
        test_fail("%s differs from the other run", label);
}

/* ---- the program ----------------------------------------------------------------------------------------------------------- */

struct settings {
    int cores;
    enum dump_mode mode;
    const char *path;
    char **names;
    int name_count;
};

static bool chosen(const struct settings *settings, const char *name)
{
    for (int i = 0; i < settings->name_count; i++)
        if (strncmp(name, settings->names[i], strlen(settings->names[i])) == 0)
            return true;
    return settings->name_count == 0;
}

static void run_cases(const struct settings *settings, const struct test_case *cases, int *passed, int *failed)
{
    for (; cases->name; cases++) {
        if (!chosen(settings, cases->name))
            continue;
        case_name = cases->name;
        case_failed = false;
        cases->run(cases->argument);
        test_release();
        printf("%s %s\n", case_failed ? "FAILED" : "ok    ", case_name);
        fflush(stdout);
        (*(case_failed ? failed : passed))++;
    }
}

static int parse(struct settings *settings, int argc, char **argv)
{
    static const char *const modes[] = {[DUMP_WRITE] = "--dump", [DUMP_COMPARE] = "--compare", [DUMP_IDENTICAL] = "--identical"};
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        bool known = strcmp(argv[i], "--cores") == 0;
        if (known)
            settings->cores = (int)strtol(argv[i + 1], NULL, 10);
        for (int m = DUMP_WRITE; m <= DUMP_IDENTICAL; m++) {
            if (strcmp(argv[i], modes[m]) == 0) {
                known = true;
                settings->mode = (enum dump_mode)m;
                settings->path = argv[i + 1];
            }
        }
        if (!known)
            break;
    }
    if (i < argc && argv[i][0] == '-') {
        fprintf(stderr, "usage: %s [--cores N] [--dump FILE | --compare FILE | --identical FILE] [CASE...]\n", argv[0]);
        return EXIT_USAGE;
    }
    settings->names = argv + i;
    settings->name_count = argc - i;
    return 0;
}

int main(int argc, char **argv)
{
    struct settings settings = {.cores = 1};
    log_set_program("kernels-test-" GPU_VENDOR_NAME);
    int status = parse(&settings, argc, argv);
    if (status)
        return status;
    const struct gpu_settings gpu = {.cores_per_device = settings.cores, .devices_used = 1, .collective_limit_s = 30};
    int devices = 0;
    if (gpu_configure(&gpu) || gpu_device_count(&devices))
        return EXIT_SKIPPED;
    status = dump_open(settings.mode, settings.path);
    if (status)
        return status;
    MUST(cudaSetDevice(0));
    MUST(cudaStreamCreateWithFlags(&test_stream, cudaStreamNonBlocking));
    int passed = 0, failed = 0;
    const struct test_case *const families[] = {elementwise_cases, matrix_cases, softmax_cases, optimizer_cases, control_cases,
                                                product_cases, attention_cases, layer_cases, lstm_cases, batch_norm_cases,
                                                convolution_cases, im2col_cases};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        run_cases(&settings, families[i], &passed, &failed);
    MUST(cudaStreamDestroy(test_stream));
    status = dump_close();
    printf("%d passed, %d failed\n", passed, failed);
    return status ? status : failed || passed == 0 ? EXIT_CHECK_FAILED : 0;
}
