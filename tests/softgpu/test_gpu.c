/* SPDX-License-Identifier: MIT
 *
 * common/gpu on soft GPUs: tagged memory, settings, reports and their exit codes.
 */
#include "play.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "gpu/backend.h"
#include "gpu/memory.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define EXPECT_LOG(words) EXPECT(strstr(log_last_error(), words) != NULL)

static void tag_memory(void)
{
    void *parameters, *gradients, *other, *none = &none;
    EXPECT(gpu_malloc(&parameters, 1000, MEMORY_PARAMETERS) == EXIT_OK);
    EXPECT(gpu_malloc(&gradients, 500, MEMORY_GRADIENTS) == EXIT_OK);
    EXPECT(gpu_malloc(&none, 0, MEMORY_DATA) == EXIT_OK && none == NULL);
    EXPECT_OK(softSetDevice(1));
    EXPECT(gpu_malloc(&other, 77, MEMORY_PARAMETERS) == EXIT_OK);
    EXPECT(memory_current(0, MEMORY_PARAMETERS) == 1000 && memory_current(1, MEMORY_PARAMETERS) == 77);
    EXPECT(memory_current(0, MEMORY_GRADIENTS) == 500 && memory_current(0, MEMORY_DATA) == 0);
    EXPECT(memory_peak_total(0) == 1500 && memory_peak_total(1) == 77);
    gpu_free(parameters); /* of device 0, while device 1 is current */
    EXPECT_OK(softSetDevice(0));
    EXPECT(gpu_malloc(&parameters, 200, MEMORY_ACTIVATIONS) == EXIT_OK);
    EXPECT(memory_current(0, MEMORY_PARAMETERS) == 0 && memory_peak(0, MEMORY_PARAMETERS) == 1000);
    EXPECT(memory_peak_total(0) == 1500); /* the peak of the sum, not the sum of the peaks: 1700 */
    memory_reset_peaks();
    EXPECT(memory_peak(0, MEMORY_PARAMETERS) == 0 && memory_peak_total(0) == 700);
    gpu_free(parameters);
    EXPECT(gpu_malloc(&parameters, 300, MEMORY_ACTIVATIONS) == EXIT_OK);
    EXPECT(memory_peak_total(0) == 800);
    gpu_free(parameters);
    gpu_free(gradients);
    gpu_free(NULL);
    gpu_free(gradients);
    EXPECT_LOG("was freed before");
    EXPECT(memory_current(0, MEMORY_GRADIENTS) == 0 && memory_peak_total(0) == 800);
    EXPECT(!strcmp(memory_category_name(MEMORY_COMMUNICATION), "communication"));
}

static void memory_is_tagged(void **state)
{
    (void)state;
    play(tag_memory, &(struct scene){0});
}

static void fill_device(void)
{
    void *first, *second = &first;
    EXPECT(gpu_malloc(&first, 15u << 20, MEMORY_ACTIVATIONS) == EXIT_OK);
    EXPECT(gpu_malloc(&second, 2u << 20, MEMORY_OUTPUTS) == EXIT_RESOURCE);
    EXPECT(second == NULL);
    EXPECT_LOG(
        "no memory for 2097152 bytes of outputs: 15728640 bytes in use, 1048576 bytes free, at most 16777216 allowed");
    EXPECT(memory_current(0, MEMORY_OUTPUTS) == 0 && memory_peak(0, MEMORY_OUTPUTS) == 0);
    EXPECT(softGetLastError() == softSuccess); /* reported, so not left sticky */
    gpu_free(first);
    memory_set_limit(1000); /* as on CUDA, where no device holds the limit */
    EXPECT(gpu_malloc(&first, 600, MEMORY_DATA) == EXIT_OK);
    EXPECT(gpu_malloc(&second, 401, MEMORY_DATA) == EXIT_RESOURCE);
    EXPECT_LOG("at most 1000 allowed (--device-memory)");
    EXPECT(gpu_malloc(&second, 400, MEMORY_DATA) == EXIT_OK);
}

static void a_full_device_is_reported(void **state)
{
    (void)state;
    play(fill_device, &(struct scene){0});
}

static int try_call(cudaStream_t stream)
{
    GPU_TRY(cudaStreamSynchronize(stream));
    return EXIT_OK;
}

static void report_errors(void)
{
    EXPECT(try_call(NULL) == EXIT_CHECK_FAILED);
    EXPECT_LOG("test_gpu.c:");
    EXPECT_LOG("cudaErrorInvalidResourceHandle");
    EXPECT_LOG("default stream");
    EXPECT(softPeekAtLastError() == softSuccess);
    EXPECT(GPU_STATUS(cudaSetDevice(99)) == EXIT_RESOURCE);
    EXPECT_LOG("there are 64");
    EXPECT(softErrorDetail()[0] == '\0'); /* told once */
    EXPECT(GPU_STATUS((cublasStatus_t)CUBLAS_STATUS_INVALID_VALUE) == EXIT_CHECK_FAILED);
    EXPECT(GPU_STATUS((ncclResult_t)ncclInvalidArgument) == EXIT_CHECK_FAILED);
    EXPECT(GPU_STATUS((ncclResult_t)ncclSuccess) == EXIT_OK);
    EXPECT(try_call(new_stream(0)) == EXIT_OK);
}

static void errors_are_reported(void **state)
{
    (void)state;
    play(report_errors, &(struct scene){0});
}

static void describe(void)
{
    int count;
    char name[64], cores[64];
    softStream_t stream = new_stream(1);
    EXPECT(gpu_device_count(&count) == EXIT_OK && count == 2);
    EXPECT(gpu_device_describe(1, name, sizeof(name), cores, sizeof(cores)) == EXIT_OK);
    EXPECT(!strcmp(name, "soft GPU 5 (1 core)"));
    EXPECT(cores[0] != '\0');
    EXPECT(!strcmp(gpu_backend_name(), "soft"));
    EXPECT(gpu_stream_finish(stream, NULL, 1) == EXIT_OK);
    EXPECT(gpu_finish() == EXIT_OK);
}

static void count_none(void)
{
    int count;
    EXPECT(gpu_device_count(&count) == EXIT_RESOURCE && count == 0);
    EXPECT_LOG("no soft GPU: CUDA_VISIBLE_DEVICES is '9'");
}

static void devices_are_described(void **state)
{
    (void)state;
    play(describe, &(struct scene){.visible = "2,5"});
    play(count_none, &(struct scene){.visible = "9", .devices = "4"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_tagged),
        cmocka_unit_test(a_full_device_is_reported),
        cmocka_unit_test(errors_are_reported),
        cmocka_unit_test(devices_are_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
