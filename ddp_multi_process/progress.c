/* SPDX-License-Identifier: MIT
 *
 * One cache line a rank in a memfd: phase and step in one word, so that they belong together.
 */
#include "progress.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rank_fault.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

struct entry {
    _Alignas(64) _Atomic uint64_t word; /* step * 256 + phase */
    _Atomic int reported;               /* rank 0: exit code of its report; 0: a good end, or none yet */
    _Atomic int blamed;                 /* rank + 1; 0: nobody */
};

static struct entry *page; /* of the process: set once, before any rank runs in it */
static int page_ranks;

static int map_page(int fd, int ranks)
{
    void *mapped = mmap(NULL, (size_t)ranks * sizeof(struct entry), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) {
        log_error("progress page of %d ranks: mmap: %s", ranks, strerror(errno));
        return EXIT_RESOURCE;
    }
    page = mapped;
    page_ranks = ranks;
    return EXIT_OK;
}

int progress_create(int ranks, int *fd)
{
    *fd = memfd_create("ddp-train progress", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, (off_t)((size_t)ranks * sizeof(struct entry))) != 0) {
        log_error("progress page of %d ranks: memfd: %s", ranks, strerror(errno));
        return EXIT_RESOURCE;
    }
    return map_page(*fd, ranks);
}

int progress_attach(int fd, int ranks)
{
    int status = map_page(fd, ranks);
    close(fd);
    return status;
}

void progress_reach(int rank, enum progress_phase phase, uint64_t step)
{
    if (page && rank < page_ranks)
        atomic_store_explicit(&page[rank].word, step << 8 | phase, memory_order_relaxed);
    rank_fault_point(rank, phase, step);
}

enum progress_phase progress_read(int rank, uint64_t *step)
{
    uint64_t word = page && rank < page_ranks ? atomic_load_explicit(&page[rank].word, memory_order_relaxed) : 0;
    uint64_t phase = word & 0xff;
    *step = word >> 8;
    return phase < PROGRESS_PHASES ? (enum progress_phase)phase : PROGRESS_START;
}

void progress_set_reported(int status)
{
    if (page)
        atomic_store_explicit(&page[0].reported, status, memory_order_release);
}

bool progress_failure_reported(void)
{
    return page && atomic_load_explicit(&page[0].reported, memory_order_acquire) != EXIT_OK;
}

void progress_blame(int rank, int left)
{
    if (page && rank < page_ranks)
        atomic_store_explicit(&page[rank].blamed, left + 1, memory_order_release);
}

int progress_blamed(int rank)
{
    return page && rank < page_ranks ? atomic_load_explicit(&page[rank].blamed, memory_order_acquire) - 1 : -1;
}
