#!/bin/sh
# SPDX-License-Identifier: MIT
# race.sh PROGRAM CASE report|clean: does the thread sanitizer report a data race, as it should, or none, as it should?
output=$(TSAN_OPTIONS='exitcode=66 halt_on_error=0 atexit_sleep_ms=0' timeout 60 "$1" "$2" 2>&1)
status=$?
races=$(printf '%s\n' "$output" | grep -c 'WARNING: ThreadSanitizer: data race')
case "$3:$status" in
    report:66) [ "$races" -gt 0 ] && exit 0 ;;
    clean:0) [ "$races" -eq 0 ] && exit 0 ;;
esac
printf '%s\n%s: status %s, %s data races reported, expected: %s\n' "$output" "$2" "$status" "$races" "$3"
exit 1
