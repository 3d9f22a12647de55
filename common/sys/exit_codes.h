/* SPDX-License-Identifier: MIT
 *
 * Exit codes of all programs; functions that can fail return one of these (0: fine) after having reported the cause.
 */
#ifndef SYS_EXIT_CODES_H
#define SYS_EXIT_CODES_H

enum exit_code {
    EXIT_OK = 0,
    EXIT_CHECK_FAILED = 1,   /* the run failed its own check */
    EXIT_USAGE = 2,
    EXIT_RESOURCE = 3,       /* resource or environment: memory, device, port, library */
    EXIT_BAD_FILE = 4,       /* bad input file */
    EXIT_RENDEZVOUS = 5,     /* rendezvous incomplete */
    EXIT_TIME_LIMIT = 6,
    EXIT_UNKILLABLE = 7,     /* a process survived SIGKILL */
    EXIT_SIGNAL = 128,       /* + N: the first rank died of signal N; 130, 143: interrupted */
};

#endif
