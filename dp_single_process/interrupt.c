/* SPDX-License-Identifier: MIT
 *
 * The signals are blocked in all threads; one thread sleeps in sigwait and tells of the first that comes. The second one
 * kills at once, as it would have without this file. ddp-train's launcher does the same for its ranks (supervise.c).
 */
#include "interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "sys/exit_codes.h"
#include "sys/log.h"

static struct {
    const struct strategy *strategy;
    const struct options *options;
    sigset_t signals;
} watch;

static void *wait_for_signal(void *nothing)
{
    char where[128];
    int number = 0;
    (void)nothing;
    while (sigwait(&watch.signals, &number) != 0)
        ;
    pthread_sigmask(SIG_UNBLOCK, &watch.signals, NULL);
    int code = EXIT_SIGNAL + number;
    place_describe(where, sizeof where);
    log_error("interrupted by signal %d (SIG%s); %s; exit code %d", number, sigabbrev_np(number), where, code);
    (void)engine_report_failure(watch.strategy, watch.options, code);
    _exit(code); /* the devices may be at work: nothing is waited for */
}

int interrupt_watch(const struct strategy *strategy, const struct options *options)
{
    static const int watched[] = {SIGINT, SIGTERM, SIGHUP};
    pthread_t thread;

    watch.strategy = strategy;
    watch.options = options;
    sigemptyset(&watch.signals);
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++) {
        struct sigaction action;
        /* What is ignored (nohup, a shell's background job) stays ignored. */
        if (sigaction(watched[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&watch.signals, watched[i]);
    }
    pthread_sigmask(SIG_BLOCK, &watch.signals, NULL);
    int failed = pthread_create(&thread, NULL, wait_for_signal, NULL);
    if (failed) {
        log_error("a thread for signals: %s", strerror(failed));
        return EXIT_RESOURCE;
    }
    pthread_detach(thread);
    return EXIT_OK;
}
