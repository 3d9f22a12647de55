/* SPDX-License-Identifier: MIT
 *
 * Tagged device memory, the same on every vendor: a list of live allocations beside the vendor's own, and per device
 * the current and peak bytes of each category. Allocations are made when a run opens, so one lock and a plain list will
 * do.
 */
#include "memory.h"

#include <pthread.h>
#include <stdlib.h>

#include "gpu.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "vendor.h"

#define DEVICES_MAX 64

struct allocation {
    struct allocation *next;
    void *pointer;
    size_t bytes;
    int device;
    enum memory_category category;
};

struct account {
    size_t current[MEMORY_CATEGORIES], peak[MEMORY_CATEGORIES];
    size_t total, total_peak;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *allocations;
static struct account accounts[DEVICES_MAX];
static size_t limit; /* 0: none */
static bool refused;

const char *memory_category_name(enum memory_category category)
{
    static const char *const names[MEMORY_CATEGORIES] = {"parameters", "gradients",     "optimizer", "activations",
                                                         "outputs",    "communication", "data"};
    return (unsigned)category < MEMORY_CATEGORIES ? names[category] : "unknown";
}

void memory_set_limit(size_t bytes)
{
    pthread_mutex_lock(&lock);
    limit = bytes;
    pthread_mutex_unlock(&lock);
}

/* Books the bytes before they are taken; false if they would pass the limit. */
static bool book(int device, enum memory_category category, size_t bytes)
{
    pthread_mutex_lock(&lock);
    struct account *account = &accounts[device];
    bool fits = limit == 0 || (bytes <= limit && account->total <= limit - bytes);
    if (fits) {
        account->current[category] += bytes;
        account->total += bytes;
    }
    pthread_mutex_unlock(&lock);
    return fits;
}

static void unbook(int device, enum memory_category category, size_t bytes)
{
    pthread_mutex_lock(&lock);
    accounts[device].current[category] -= bytes;
    accounts[device].total -= bytes;
    pthread_mutex_unlock(&lock);
}

/* Peaks rise only once the vendor has given the memory. */
static void enter(struct allocation *allocation)
{
    pthread_mutex_lock(&lock);
    struct account *account = &accounts[allocation->device];
    enum memory_category category = allocation->category;
    if (account->current[category] > account->peak[category])
        account->peak[category] = account->current[category];
    if (account->total > account->total_peak)
        account->total_peak = account->total;
    allocation->next = allocations;
    allocations = allocation;
    pthread_mutex_unlock(&lock);
}

static int report_failure(int device, enum memory_category category, size_t bytes, const char *why)
{
    size_t free_bytes = 0, total_bytes = 0;
    bool known = cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess;
    (void)cudaGetLastError();
    pthread_mutex_lock(&lock);
    refused = true;
    size_t in_use = accounts[device].total, most = limit ? limit : known ? total_bytes : 0;
    pthread_mutex_unlock(&lock);
    log_error("device %d: no memory for %zu bytes of %s: %zu bytes in use, %zu bytes free, at most %zu allowed (%s)",
              device, bytes, memory_category_name(category), in_use, free_bytes, most, why);
    return EXIT_RESOURCE;
}

int gpu_malloc(void **pointer, size_t bytes, enum memory_category category)
{
    *pointer = NULL;
    if (bytes == 0)
        return EXIT_OK;
    int device = 0;
    GPU_TRY(cudaGetDevice(&device));
    if (device < 0 || device >= DEVICES_MAX) {
        log_error("device %d: at most %d devices are counted", device, DEVICES_MAX);
        return EXIT_RESOURCE;
    }
    struct allocation *allocation = malloc(sizeof(*allocation));
    if (!allocation) {
        log_error("device %d: no host memory to book %zu bytes of %s", device, bytes, memory_category_name(category));
        return EXIT_RESOURCE;
    }
    if (!book(device, category, bytes)) {
        free(allocation);
        return report_failure(device, category, bytes, "--device-memory");
    }
    cudaError_t error = cudaMalloc(pointer, bytes);
    if (error != cudaSuccess) {
        free(allocation);
        *pointer = NULL;
        unbook(device, category, bytes);
        const char *detail = vendor_error_detail();
        return report_failure(device, category, bytes, detail[0] ? detail : cudaGetErrorString(error));
    }
    *allocation = (struct allocation){NULL, *pointer, bytes, device, category};
    enter(allocation);
    return EXIT_OK;
}

bool memory_was_refused(void)
{
    pthread_mutex_lock(&lock);
    bool was = refused;
    pthread_mutex_unlock(&lock);
    return was;
}

int gpu_malloc_pinned(void **pointer, size_t bytes)
{
    cudaError_t error = cudaMallocHost(pointer, bytes);
    if (error == cudaSuccess)
        return EXIT_OK;
    *pointer = NULL;
    const char *detail = vendor_error_detail();
    log_error("no pinned host memory for %zu bytes (%s)", bytes, detail[0] ? detail : cudaGetErrorString(error));
    (void)cudaGetLastError();
    return vendor_is_resource_error(error) ? EXIT_RESOURCE : EXIT_CHECK_FAILED;
}

void memory_forget_refusal(void)
{
    pthread_mutex_lock(&lock);
    refused = false;
    pthread_mutex_unlock(&lock);
}

void gpu_free(void *pointer)
{
    if (!pointer)
        return;
    pthread_mutex_lock(&lock);
    struct allocation **link = &allocations;
    while (*link && (*link)->pointer != pointer)
        link = &(*link)->next;
    struct allocation *found = *link;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&lock);
    if (!found) {
        log_error("gpu_free: %p does not come from gpu_malloc or was freed before", pointer);
        return;
    }
    cudaError_t freed = cudaFree(pointer);
    if (freed == cudaErrorLaunchFailure || freed == cudaErrorLaunchTimeout)
        (void)cudaGetLastError(); /* an older failure of the device, told where it was waited for */
    else
        (void)gpu_report_cuda(freed, "cudaFree", __FILE__, __LINE__); /* a damaged guard is told here */
    unbook(found->device, found->category, found->bytes);
    free(found);
}

/* ---- readings -------------------------------------------------------------------------------- */

static size_t read_account(int device, const size_t *bytes)
{
    if (device < 0 || device >= DEVICES_MAX)
        return 0;
    pthread_mutex_lock(&lock);
    size_t value = *bytes;
    pthread_mutex_unlock(&lock);
    return value;
}

size_t memory_current(int device, enum memory_category category)
{
    return read_account(device, &accounts[(unsigned)device % DEVICES_MAX].current[category]);
}

size_t memory_peak(int device, enum memory_category category)
{
    return read_account(device, &accounts[(unsigned)device % DEVICES_MAX].peak[category]);
}

size_t memory_peak_total(int device)
{
    return read_account(device, &accounts[(unsigned)device % DEVICES_MAX].total_peak);
}

void memory_reset_peaks(void)
{
    pthread_mutex_lock(&lock);
    for (int device = 0; device < DEVICES_MAX; device++) {
        struct account *account = &accounts[device];
        for (int category = 0; category < MEMORY_CATEGORIES; category++)
            account->peak[category] = account->current[category];
        account->total_peak = account->total;
    }
    pthread_mutex_unlock(&lock);
}
