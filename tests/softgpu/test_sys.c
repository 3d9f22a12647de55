/* SPDX-License-Identifier: MIT
 *
 * common/sys: known answers, whole files, usable cores.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sys/checksum.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"
#include "sys/random.h"
#include "sys/topology.h"

static char folder[] = "/tmp/test_sys.XXXXXX";

/* The authors' known answers: Random123, tests/kat_vectors, philox 4x32 10. */
static void philox_gives_the_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t counter, stream, seed;
        uint32_t answer[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x85a308d3243f6a88, 0x0370734413198a2e, 0x299f31d0a4093822, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        uint32_t out[4];
        philox4x32(out, known[i].counter, known[i].stream, known[i].seed);
        assert_memory_equal(out, known[i].answer, sizeof(out));
    }
    assert_int_equal(random_u32(0, 0, 2), 0xbc57ac4c); /* index 2 is word 2 of block 0 */
}

static void random_floats_have_their_moments(void **state)
{
    (void)state;
    enum { N = 100000 };
    double sum = 0, square = 0, normal = 0, normal_square = 0;
    for (uint64_t i = 0; i < N; i++) {
        double u = (double)random_uniform(1, 2, i), z = (double)random_normal(1, 2, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
        square += u * u;
        normal += z;
        normal_square += z * z;
    }
    /* five standard errors: 1/sqrt(12 N), 1/sqrt(N), ... */
    assert_true(sum / N > 0.4954 && sum / N < 0.5046);
    assert_true(square / N > 0.3286 && square / N < 0.3381);
    assert_true(normal / N > -0.0159 && normal / N < 0.0159);
    assert_true(normal_square / N > 0.9776 && normal_square / N < 1.0224);
}

static void a_permutation_holds_each_number_once(void **state)
{
    (void)state;
    uint32_t order[1000], other[1000];
    char seen[1000] = {0};
    random_permutation(order, 1000, 7, random_stream(RANDOM_SHUFFLE, 0));
    for (size_t i = 0; i < 1000; i++) {
        assert_true(order[i] < 1000 && !seen[order[i]]);
        seen[order[i]] = 1;
    }
    random_permutation(other, 1000, 7, random_stream(RANDOM_SHUFFLE, 0));
    assert_memory_equal(order, other, sizeof(order));
    random_permutation(other, 1000, 7, random_stream(RANDOM_SHUFFLE, 1));
    assert_memory_not_equal(order, other, sizeof(order));
}

/* Each of the 6 orders of 3 in 60000 streams: 10000 +- 5 standard deviations of 91. A shuffle that swaps with any place
 * instead of the places left gives 8889 and 11111. */
static void all_orders_are_as_likely(void **state)
{
    (void)state;
    unsigned count[27] = {0};
    for (uint32_t stream = 0; stream < 60000; stream++) {
        uint32_t order[3];
        random_permutation(order, 3, 1, random_stream(RANDOM_SHUFFLE, stream));
        count[9 * order[0] + 3 * order[1] + order[2]]++;
    }
    unsigned orders = 0;
    for (int i = 0; i < 27; i++) {
        orders += count[i] > 0;
        assert_true(count[i] == 0 || (count[i] > 9544 && count[i] < 10456));
    }
    assert_int_equal(orders, 6);
}

static void the_checksum_sees_each_bit(void **state)
{
    (void)state;
    unsigned char data[67];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)(i * 37);
    uint64_t whole = checksum(CHECKSUM_SEED, data, sizeof(data));
    for (size_t bit = 0; bit < 8 * sizeof(data); bit++) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_true(checksum(CHECKSUM_SEED, data, sizeof(data)) != whole);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    data[7] ^= 0x80; /* the signs of two floats in the upper halves of two words: plain FNV-1a lets them cancel */
    data[15] ^= 0x80;
    assert_true(checksum(CHECKSUM_SEED, data, sizeof(data)) != whole);
    data[7] ^= 0x80;
    data[15] ^= 0x80;
    assert_true(checksum(checksum(CHECKSUM_SEED, data, 32), data + 32, 35) == whole); /* chained at a word */
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int files_in_folder(void)
{
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    int count = -2; /* . and .. */
    while (readdir(listing))
        count++;
    closedir(listing);
    return count;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(in_folder("file"));
    return rmdir(folder);
}

static void a_file_comes_back_whole(void **state)
{
    (void)state;
    void *data;
    size_t bytes;
    assert_int_equal(file_write_atomic(in_folder("file"), "first", 5), EXIT_OK);
    assert_int_equal(file_write_atomic(in_folder("file"), "the second", 10), EXIT_OK);
    assert_int_equal(file_read(in_folder("file"), 10, &data, &bytes), EXIT_OK);
    assert_int_equal(bytes, 10);
    assert_string_equal(data, "the second");
    free(data);
    assert_int_equal(files_in_folder(), 1);
    assert_int_equal(file_check_writable(in_folder("file")), EXIT_OK);
    assert_int_equal(files_in_folder(), 1);
}

static void a_file_that_is_too_long_or_none_is_refused(void **state)
{
    (void)state;
    void *data;
    size_t bytes;
    assert_int_equal(file_write_atomic(in_folder("file"), "0123456789", 10), EXIT_OK);
    assert_int_equal(file_read(in_folder("file"), 9, &data, &bytes), EXIT_BAD_FILE);
    assert_null(data);
    assert_non_null(strstr(log_last_error(), "has 10 bytes, at most 9"));
    assert_int_equal(file_read(in_folder("missing"), 9, &data, &bytes), EXIT_BAD_FILE);
    assert_int_equal(file_read(folder, 9, &data, &bytes), EXIT_BAD_FILE);
    assert_int_equal(unlink(in_folder("file")), 0);
    assert_int_equal(mkfifo(in_folder("file"), 0600), 0);
    assert_int_equal(file_read(in_folder("file"), 9, &data, &bytes), EXIT_BAD_FILE); /* not waited for */
    assert_non_null(strstr(log_last_error(), "not a regular file"));
    assert_int_equal(unlink(in_folder("file")), 0);
    assert_int_equal(file_check_writable(folder), EXIT_RESOURCE);
    assert_int_equal(file_check_writable(in_folder("no/such/file")), EXIT_RESOURCE);
    assert_int_equal(file_write_atomic(in_folder("no/such/file"), "x", 1), EXIT_RESOURCE);
}

/* A write that fails in the middle (a limit on file sizes) leaves the old content and no temporary. */
static void a_failed_write_keeps_the_old_file(void **state)
{
    (void)state;
    assert_int_equal(file_write_atomic(in_folder("file"), "old", 3), EXIT_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static char large[1 << 16];
        struct rlimit limit = {4096, 4096};
        signal(SIGXFSZ, SIG_IGN);
        _exit(setrlimit(RLIMIT_FSIZE, &limit) ? 99 : file_write_atomic(in_folder("file"), large, sizeof(large)));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), EXIT_RESOURCE);
    void *data;
    size_t bytes;
    assert_int_equal(file_read(in_folder("file"), 100, &data, &bytes), EXIT_OK);
    assert_string_equal(data, "old");
    free(data);
    assert_int_equal(files_in_folder(), 1);
}

static void expect_refusal(const char *path, const char *kind)
{
    struct stat before, after;
    assert_int_equal(lstat(path, &before), 0);
    assert_int_equal(file_check_writable(path), EXIT_RESOURCE);
    assert_non_null(strstr(log_last_error(), path));
    assert_non_null(strstr(log_last_error(), kind));
    assert_non_null(strstr(log_last_error(), "a regular file was expected"));
    assert_int_equal(file_write_atomic(path, "x", 1), EXIT_RESOURCE);
    assert_int_equal(lstat(path, &after), 0);
    assert_true(before.st_mode == after.st_mode && before.st_ino == after.st_ino && before.st_rdev == after.st_rdev);
}

static void what_is_no_regular_file_is_refused(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof(path), "%s", in_folder("special"));
    expect_refusal(folder, "a folder");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(path, "a pipe");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("no/such/file", path), 0);
    expect_refusal(path, "leads nowhere");
    assert_int_equal(unlink(path), 0);
}

/* Nodes of our own, so that a mistake costs no real device; making them takes a right that a user has not. */
static void a_device_is_refused_and_what_flows_into_it_is_not(void **state)
{
    (void)state;
    char full[256], null[256];
    snprintf(full, sizeof(full), "%s", in_folder("full"));
    snprintf(null, sizeof(null), "%s", in_folder("null"));
    int failed = mknod(full, S_IFCHR | 0600, makedev(1, 7)) || mknod(null, S_IFCHR | 0600, makedev(1, 3));
    int descriptor = failed ? -1 : open(full, O_WRONLY); /* a folder mounted without devices */
    if (descriptor < 0) {
        unlink(full);
        unlink(null);
        skip();
    }
    close(descriptor);
    expect_refusal(full, "a device");
    assert_int_equal(file_check_output(full), EXIT_OK);
    assert_int_equal(file_write_output(full, "x", 1), EXIT_RESOURCE);
    assert_non_null(strstr(log_last_error(), strerror(ENOSPC)));
    assert_int_equal(file_write_output(null, "x", 1), EXIT_OK);
    struct stat status;
    assert_true(stat(null, &status) == 0 && S_ISCHR(status.st_mode));
    unlink(full);
    unlink(null);
}

static void a_link_is_followed(void **state)
{
    (void)state;
    char link[256];
    struct stat status;
    void *data;
    size_t bytes;
    snprintf(link, sizeof(link), "%s", in_folder("link"));
    assert_int_equal(file_write_atomic(in_folder("file"), "old", 3), EXIT_OK);
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(file_check_writable(link), EXIT_OK);
    assert_int_equal(file_write_atomic(link, "new", 3), EXIT_OK);
    assert_true(lstat(link, &status) == 0 && S_ISLNK(status.st_mode));
    assert_int_equal(file_read(in_folder("file"), 100, &data, &bytes), EXIT_OK);
    assert_string_equal(data, "new");
    free(data);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(files_in_folder(), 1);
}

enum { FLOW_BYTES = 200000 }; /* more than a pipe holds */

static void *read_pipe(void *path)
{
    static char read_bytes[FLOW_BYTES + 1];
    size_t have = 0;
    int descriptor = open(path, O_RDONLY);
    for (ssize_t got = 1; got > 0; have += (size_t)(got > 0 ? got : 0))
        got = read(descriptor, read_bytes + have, sizeof(read_bytes) - have);
    close(descriptor);
    return have == FLOW_BYTES ? read_bytes : NULL;
}

static void output_flows_through_a_pipe(void **state)
{
    (void)state;
    static char sent[FLOW_BYTES];
    char path[256];
    void *received = NULL;
    pthread_t reader;
    for (size_t i = 0; i < sizeof(sent); i++)
        sent[i] = (char)(i * 7);
    snprintf(path, sizeof(path), "%s", in_folder("pipe"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(file_check_output(path), EXIT_OK);
    assert_int_equal(file_write_output(path, sent, sizeof(sent)), EXIT_RESOURCE);
    assert_non_null(strstr(log_last_error(), "nobody reads from it"));
    assert_int_equal(pthread_create(&reader, NULL, read_pipe, path), 0);
    int probe = -1; /* until the reader is there */
    while (probe < 0)
        probe = open(path, O_WRONLY | O_NONBLOCK);
    assert_int_equal(file_write_output(path, sent, sizeof(sent)), EXIT_OK);
    close(probe);
    assert_int_equal(pthread_join(reader, &received), 0);
    assert_non_null(received);
    assert_memory_equal(received, sent, sizeof(sent));
    struct stat status;
    assert_true(stat(path, &status) == 0 && S_ISFIFO(status.st_mode));
    assert_int_equal(unlink(path), 0);
}

/* ---- clock, log, cores ----------------------------------------------------------------------- */

static void sleep_lasts_at_least_its_time(void **state)
{
    (void)state;
    double before = clock_seconds();
    clock_sleep(0.02);
    assert_true(clock_seconds() - before >= 0.02);
    clock_sleep(-1);
    assert_true(clock_nanoseconds() >= (uint64_t)(before * 1e9));
}

static void the_last_error_is_kept_and_cut(void **state)
{
    (void)state;
    log_error("found %d, expected %d", 3, 4);
    log_warning("not an error");
    assert_string_equal(log_last_error(), "found 3, expected 4");
    char *text = malloc(20000);
    assert_non_null(text);
    memset(text, 'x', 19999);
    text[19999] = '\0';
    log_set_program("test_sys");
    log_set_rank(2);
    log_error("%s", text);
    free(text);
    assert_int_equal(strlen(log_last_error()), 4095);
    log_set_rank(-1);
}

static void *bind_and_read(void *list)
{
    if (!topology_bind_thread(0, 1))
        topology_read_binding(list, 64);
    return NULL;
}

static void threads_are_bound_and_read_back(void **state)
{
    (void)state;
    assert_true(topology_lists_meet("0-3,8", "5,8-9") && topology_lists_meet("2", "0-3"));
    assert_false(topology_lists_meet("0-3,8", "4-7,9") || topology_lists_meet("", "0") || topology_lists_meet("1", "11"));
    int cores = topology_usable_cores();
    assert_true(cores >= 1);
    assert_true(strlen(topology_source()) > 0);
    assert_true(topology_memory_bytes() >= topology_memory_free() / 2);
    assert_true(topology_memory_free() > 0);
    char first[64] = "", own[1024];
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, bind_and_read, first), 0);
    pthread_join(thread, NULL);
    topology_read_binding(own, sizeof(own));
    assert_true(first[0] != '\0');
    if (cores > 1)
        assert_string_not_equal(first, own); /* the main thread is not bound by it */
    assert_int_equal(topology_usable_cores(), cores);
    char tiny[1];
    topology_read_binding(tiny, sizeof(tiny));
    assert_int_equal(tiny[0], '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(random_floats_have_their_moments),
        cmocka_unit_test(a_permutation_holds_each_number_once),
        cmocka_unit_test(all_orders_are_as_likely),
        cmocka_unit_test(the_checksum_sees_each_bit),
        cmocka_unit_test(a_file_comes_back_whole),
        cmocka_unit_test(a_file_that_is_too_long_or_none_is_refused),
        cmocka_unit_test(a_failed_write_keeps_the_old_file),
        cmocka_unit_test(what_is_no_regular_file_is_refused),
        cmocka_unit_test(a_device_is_refused_and_what_flows_into_it_is_not),
        cmocka_unit_test(a_link_is_followed),
        cmocka_unit_test(output_flows_through_a_pipe),
        cmocka_unit_test(sleep_lasts_at_least_its_time),
        cmocka_unit_test(the_last_error_is_kept_and_cut),
        cmocka_unit_test(threads_are_bound_and_read_back),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
