/* SPDX-License-Identifier: MIT
 *
 * Programs: did the run come to its end? A record of a run that failed holds what was done before, which is no answer
 * to what a step takes.
 */
#include <inttypes.h>
#include <string.h>

#include "program_build.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define VERSION_WITH_EXIT_CODE 3

static int check_exit_code(const struct build *build)
{
    const char *code = program_setting(build->program, "exit_code", NULL);
    const char *path = build->record->path;
    uint32_t version = build->record->header->version;
    if (version < VERSION_WITH_EXIT_CODE) {
        if (!code)
            return EXIT_OK;
        log_error("%s: version (offset 8) is %" PRIu32 ", expected 3: it has the setting exit_code", path, version);
        return EXIT_BAD_FILE;
    }
    if (!code) {
        log_error("%s: has no setting exit_code, expected exit_code = 0: its run did not come to its end", path);
        return EXIT_BAD_FILE;
    }
    if (!strcmp(code, "0"))
        return EXIT_OK;
    log_error("%s: setting exit_code is %s, expected 0: its run failed, and steps may be missing or cut short", path,
              code);
    return EXIT_BAD_FILE;
}

/* Each timed step that begins ends before the next one. */
static int check_steps(const struct build *build)
{
    const struct record_file *record = build->record;
    const struct soft_record_entry *open = NULL;
    for (uint64_t i = 0; i < record->count; i++) {
        const struct soft_record_entry *entry = &record->entries[i];
        if (build_is_note(record, entry, "step_end"))
            open = NULL;
        if (!build_is_note(record, entry, "step_begin"))
            continue;
        if (open)
            break;
        open = entry;
    }
    if (!open)
        return EXIT_OK;
    log_error("%s: entry %" PRIu64 ": step %" PRIu32 " begins, expected that it ends too", record->path,
              (uint64_t)(open - record->entries), open->mark);
    return EXIT_BAD_FILE;
}

int build_check_end(struct build *build)
{
    int status = check_exit_code(build);
    return status ? status : check_steps(build);
}
