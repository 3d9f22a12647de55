/* SPDX-License-Identifier: MIT
 *
 * Locks, waiting and memory that the thread sanitizer must not see.
 *
 * On a GPU the only happens-before edges are CUDA's: work after its enqueue, a wait after its event, the host after a
 * synchronisation. The queues and tables of the soft GPU need locks too, and a sanitizer that saw those would find
 * every program well ordered. So the core of the soft GPU is compiled without the thread sanitizer, uses the locks
 * below in place of pthread's, and states CUDA's edges itself by soft_release and soft_acquire. Bodies of kernels,
 * copies, products and collectives are compiled with it.
 *
 * Rules in core code: no pthread mutexes; no malloc, free, memcpy or memmove on shared bookkeeping (the sanitizer
 * intercepts them in uninstrumented code too): hidden_alloc, hidden_free, hidden_copy.
 */
#ifndef SOFTGPU_HIDDEN_H
#define SOFTGPU_HIDDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One happens-before edge: everything before soft_release(address) in one thread is seen after soft_acquire(address) in
 * another. For the sanitizer only (no-ops without it): the order itself must come from a signal or a lock. An address
 * gathers all that was ever released at it: take a fresh one (hidden_alloc) where that would order too much. */
void soft_release(const void *address);
void soft_acquire(const void *address);

/* A counter that threads wait for, also of other processes if it lies in shared memory. Zeroed memory is ready for use.
 */
struct soft_signal {
    uint32_t value;
    uint32_t sleepers;
};

uint32_t soft_signal_read(const struct soft_signal *signal);      /* acquire */
void soft_signal_set(struct soft_signal *signal, uint32_t value); /* release, and wakes all that sleep */
uint32_t soft_signal_add(struct soft_signal *signal, uint32_t n); /* the same; returns the new value */

#define SOFT_NO_DEADLINE UINT64_MAX

/* Returns true as soon as the value is no longer `seen`, false once clock_nanoseconds() has passed deadline_ns. Spins
 * for at most spin_ns (0: sleeps at once), then sleeps in a futex. */
bool soft_signal_wait(struct soft_signal *signal, uint32_t seen, uint64_t spin_ns, uint64_t deadline_ns);

/* The threads of one device's streams, which share its cores. A member's sleep in soft_signal_wait is counted. */
struct soft_crowd {
    uint32_t awake;
    uint32_t cores;
    uint64_t spun_ns; /* by all members, so far: not busy time */
};
void soft_crowd_join(struct soft_crowd *crowd); /* the calling thread, for its life */
void soft_crowd_leave(void);

/* Spin that fits the moment: a few microseconds, or 0 when more threads of the caller's device are awake than it has
 * cores, so that a stream that waits takes no time from one that works. */
uint64_t soft_spin_ns(void);

void soft_pause(void); /* one breath of a spin loop */

/* Mutual exclusion: spins shortly, then sleeps. Zeroed memory is an open lock. A wait is recorded under `name`
 * (static; NULL: not recorded, for the locks of the record itself). */
struct soft_lock {
    uint32_t state; /* 0 open, 1 held, 2 held and waited for */
};
void soft_lock(struct soft_lock *lock, const char *name);
void soft_unlock(struct soft_lock *lock);

/* Zeroed memory, NULL if there is none; the sanitizer does not see its first write nor its release. */
void *hidden_alloc(size_t bytes);
void hidden_free(void *memory);
void hidden_copy(void *to, const void *from,
                 size_t bytes); /* overlapping ranges: forwards if to < from, else backwards */
void hidden_zero(void *to, size_t bytes);
size_t hidden_copy_text(char *to, size_t size, const char *from); /* cut to size - 1; returns the length written */

#ifdef __cplusplus
}
#endif
#endif
