/* SPDX-License-Identifier: MIT
 *
 * One line a message on stderr, prefixed by program and (if set) rank: "ddp-train: rank 2: ...". Thread-safe.
 */
#ifndef SYS_LOG_H
#define SYS_LOG_H

#include <stdbool.h>

#if defined(__GNUC__)
#define LOG_FORMAT(a, b) __attribute__((format(printf, a, b)))
#else
#define LOG_FORMAT(a, b)
#endif

#ifdef __cplusplus
extern "C" {
#endif

void log_set_program(const char *name); /* static storage */
void log_set_rank(int rank);            /* -1: none */
void log_error(const char *format, ...) LOG_FORMAT(1, 2);
void log_warning(const char *format, ...) LOG_FORMAT(1, 2);
void log_info(const char *format, ...) LOG_FORMAT(1, 2);
void log_set_quiet(bool quiet); /* drops log_info */
/* Says and forgets what the program that became this one has left to say (ENV_NOTE): by log_info. */
#define ENV_NOTE "DPBENCH_NOTE"
void log_note(void);
void log_set_muted(bool muted);          /* drops all; log_last_error still tells */
/* The text of this process's last log_error ("" if none): the reason column of a failed run. */
const char *log_last_error(void);
/* Another process's text becomes this one's last error; it has printed it itself. */
void log_remember(const char *format, ...) LOG_FORMAT(1, 2);

#ifdef __cplusplus
}
#endif
#endif
