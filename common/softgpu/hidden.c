/* SPDX-License-Identifier: MIT
 *
 * See hidden.h. Compiled without the thread sanitizer, without builtin recognition of copies (a recognised loop would
 * become a call of memcpy, which the sanitizer intercepts).
 */
#include "hidden.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "record.h"
#include "sys/clock.h"
#include "sys/topology.h"

#define SPIN_NS 5000       /* about the price of a futex wake-up: more costs cores, less costs latency */
#define PAUSES_PER_LOOK 16 /* pauses between two readings of the clock */
#define LOCK_PAUSES 200

/* ---- the sanitizer's own entry points -------------------------------------------------------------------------------
 */

#ifdef SOFTGPU_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

void soft_release(const void *address)
{
    __tsan_release((void *)(uintptr_t)address);
}

void soft_acquire(const void *address)
{
    __tsan_acquire((void *)(uintptr_t)address);
}
#else
#define AnnotateIgnoreWritesBegin(file, line) ((void)0)
#define AnnotateIgnoreWritesEnd(file, line) ((void)0)

void soft_release(const void *address)
{
    (void)address;
}

void soft_acquire(const void *address)
{
    (void)address;
}
#endif

/* ---- memory ---------------------------------------------------------------------------------------------------------
 */

/* free() drops all that was released at addresses inside: the next user of the memory starts without foreign edges. */
void *hidden_alloc(size_t bytes)
{
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    void *memory = calloc(1, bytes);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    return memory;
}

void hidden_free(void *memory)
{
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    free(memory);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
}

void hidden_copy(void *to, const void *from, size_t bytes)
{
    unsigned char *out = to;
    const unsigned char *in = from;
    if (out < in) {
        for (size_t i = 0; i < bytes; i++)
            out[i] = in[i];
    } else {
        for (size_t i = bytes; i > 0; i--)
            out[i - 1] = in[i - 1];
    }
}

void hidden_zero(void *to, size_t bytes)
{
    unsigned char *out = to;
    for (size_t i = 0; i < bytes; i++)
        out[i] = 0;
}

size_t hidden_copy_text(char *to, size_t size, const char *from)
{
    size_t length = 0;
    for (; length + 1 < size && from[length]; length++)
        to[length] = from[length];
    if (size > 0)
        to[length] = '\0';
    return length;
}

/* ---- waiting --------------------------------------------------------------------------------------------------------
 */

static _Thread_local struct soft_crowd *own_crowd;

void soft_crowd_join(struct soft_crowd *crowd)
{
    own_crowd = crowd;
    __atomic_add_fetch(&crowd->awake, 1, __ATOMIC_RELAXED);
}

void soft_crowd_leave(void)
{
    __atomic_sub_fetch(&own_crowd->awake, 1, __ATOMIC_RELAXED);
    own_crowd = NULL;
}

uint64_t soft_spin_ns(void)
{
    static int usable;
    if (own_crowd)
        return __atomic_load_n(&own_crowd->awake, __ATOMIC_RELAXED) <= own_crowd->cores ? SPIN_NS : 0;
    if (__atomic_load_n(&usable, __ATOMIC_RELAXED) == 0)
        __atomic_store_n(&usable, topology_usable_cores(), __ATOMIC_RELAXED);
    return __atomic_load_n(&usable, __ATOMIC_RELAXED) > 1 ? SPIN_NS : 0;
}

void soft_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Shared futexes: a signal may lie in memory that several processes map. The deadline is absolute. */
static void futex_wait(uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
    struct timespec end = {.tv_sec = (time_t)(deadline_ns / 1000000000u), .tv_nsec = (long)(deadline_ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, deadline_ns == SOFT_NO_DEADLINE ? NULL : &end, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

static void futex_wake(uint32_t *word, int threads)
{
    syscall(SYS_futex, word, FUTEX_WAKE, threads, NULL, NULL, 0);
}

uint32_t soft_signal_read(const struct soft_signal *signal)
{
    return __atomic_load_n(&signal->value, __ATOMIC_ACQUIRE);
}

/* The store and the look at `sleepers` are sequentially consistent, as are a sleeper's announcement and the kernel's
 * look at the value: one of the two sees the other. */
static void wake_sleepers(struct soft_signal *signal)
{
    if (__atomic_load_n(&signal->sleepers, __ATOMIC_SEQ_CST) > 0)
        futex_wake(&signal->value, INT32_MAX);
}

void soft_signal_set(struct soft_signal *signal, uint32_t value)
{
    __atomic_store_n(&signal->value, value, __ATOMIC_SEQ_CST);
    wake_sleepers(signal);
}

uint32_t soft_signal_add(struct soft_signal *signal, uint32_t n)
{
    uint32_t value = __atomic_add_fetch(&signal->value, n, __ATOMIC_SEQ_CST);
    wake_sleepers(signal);
    return value;
}

/* True as soon as the value is no longer `seen`; false after spin_ns. */
static bool spin(struct soft_signal *signal, uint32_t seen, uint64_t spin_ns)
{
    uint64_t start = clock_nanoseconds(), passed;
    bool changed;
    do {
        for (int i = 0; i < PAUSES_PER_LOOK && soft_signal_read(signal) == seen; i++)
            soft_pause();
        changed = soft_signal_read(signal) != seen;
        passed = clock_nanoseconds() - start;
    } while (!changed && passed < spin_ns);
    if (own_crowd) /* a spin that was preempted used no more than its share */
        __atomic_add_fetch(&own_crowd->spun_ns, passed < spin_ns ? passed : spin_ns, __ATOMIC_RELAXED);
    return changed;
}

bool soft_signal_wait(struct soft_signal *signal, uint32_t seen, uint64_t spin_ns, uint64_t deadline_ns)
{
    if (soft_signal_read(signal) != seen || (spin_ns > 0 && spin(signal, seen, spin_ns)))
        return true;
    if (own_crowd)
        __atomic_sub_fetch(&own_crowd->awake, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&signal->sleepers, 1, __ATOMIC_SEQ_CST);
    bool late = false;
    while (soft_signal_read(signal) == seen && !late) {
        futex_wait(&signal->value, seen, deadline_ns);
        late = deadline_ns != SOFT_NO_DEADLINE && clock_nanoseconds() >= deadline_ns;
    }
    __atomic_sub_fetch(&signal->sleepers, 1, __ATOMIC_SEQ_CST);
    if (own_crowd)
        __atomic_add_fetch(&own_crowd->awake, 1, __ATOMIC_RELAXED);
    return soft_signal_read(signal) != seen;
}

/* ---- locks ----------------------------------------------------------------------------------------------------------
 */

static bool try_lock(struct soft_lock *lock)
{
    uint32_t open = 0;
    return __atomic_compare_exchange_n(&lock->state, &open, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void lock_slowly(struct soft_lock *lock)
{
    for (int i = 0; i < LOCK_PAUSES; i++) {
        if (try_lock(lock))
            return;
        soft_pause();
    }
    while (__atomic_exchange_n(&lock->state, 2, __ATOMIC_ACQUIRE) != 0)
        futex_wait(&lock->state, 2, SOFT_NO_DEADLINE);
}

void soft_lock(struct soft_lock *lock, const char *name)
{
    if (try_lock(lock))
        return;
    uint64_t start = clock_nanoseconds();
    lock_slowly(lock);
    if (name)
        soft_record_lock_wait(name, start);
}

void soft_unlock(struct soft_lock *lock)
{
    if (__atomic_exchange_n(&lock->state, 0, __ATOMIC_RELEASE) == 2)
        futex_wake(&lock->state, 1);
}
