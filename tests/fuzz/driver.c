/* SPDX-License-Identifier: MIT
 *
 * Runs a fuzz target where libFuzzer is not there: all seeds, each cut at many lengths, then RUNS seeds that are damaged in some
 * places, by random numbers that are the same every time. The byte behind an input lies on a page that can't be read. An input that
 * ends the program is left in a file; `fuzz_NAME FILE ...` runs such files.
 *
 *     fuzz_NAME [RUNS | FILE...]
 */
#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "sys/random.h"

#define MOST_SEEDS 64
#define MOST_CUTS 2000
#define MOST_DAMAGES 4

static struct {
    const char *name;
    int terminal;           /* stdout as it was: targets may write to it */
    uint8_t *end;           /* of the readable page before the one that is not */
    uint8_t input[FUZZ_MAX_BYTES];
    size_t bytes;
    uint64_t drawn;         /* random numbers */
    unsigned long runs;
} driver;

static struct {
    uint8_t data[FUZZ_MAX_BYTES];
    size_t bytes;
} seeds[MOST_SEEDS];
static unsigned seed_count;

/* ---- findings ---------------------------------------------------------------------------------------------------- */

/* Called where little may be called: a signal came. */
static void leave_input(void)
{
    char path[256] = "finding-", text[512];

    strncat(path, driver.name, sizeof(path) - 10);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file >= 0) {
        (void)!write(file, driver.input, driver.bytes);
        close(file);
    }
    strcpy(text, "FINDING: the input is left in ");
    strncat(text, path, sizeof(text) - strlen(text) - 2);
    strcat(text, "\n");
    (void)!write(driver.terminal, text, strlen(text));
}

static void on_signal(int number)
{
    leave_input();
    signal(number, SIG_DFL);
    raise(number);
}

/* A sanitizer ends the program without a signal, but tells whoever asks. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void watch(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !__sanitizer_set_death_callback; i++)
        signal(numbers[i], on_signal);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(leave_input);
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

static void run(void)
{
    uint8_t *data = driver.end - driver.bytes;

    memcpy(data, driver.input, driver.bytes);
    (void)LLVMFuzzerTestOneInput(data, driver.bytes);
    driver.runs++;
}

static void take_seed(unsigned number)
{
    memcpy(driver.input, seeds[number].data, seeds[number].bytes);
    driver.bytes = seeds[number].bytes;
}

static size_t draw(size_t below)
{
    return below ? random_u32(1, 0, driver.drawn++) % below : 0;
}

/* Numbers at which sizes and counts go wrong, as they stand in files: both byte orders, 1 to 8 bytes. */
static void put_number(size_t at)
{
    static const uint64_t numbers[] = {0, 1, 2, 9, 10, 127, 128, 255, 256, 65535, 65536, 0x7fffffff, 0x80000000, 0xffffffff,
                                       0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff};
    uint64_t number = numbers[draw(sizeof(numbers) / sizeof(numbers[0]))];
    size_t width = (size_t)1 << draw(4);
    bool big = draw(2);

    for (size_t i = 0; i < width && at + i < driver.bytes; i++)
        driver.input[at + i] = (uint8_t)(number >> 8 * (big ? width - 1 - i : i));
}

/* Words at which readers of text go wrong. */
static void put_word(size_t at)
{
    static const char *const words[] = {"0", "-1", "nan", "inf", "1e999", "4x", "4294967296", "18446744073709551616", "0x10", ",,", "\"",
                                        "\n", "\r\n", "=", "[", "]", "{", "}", "--", "%s%n", " ", "\xff"};
    const char *word = words[draw(sizeof(words) / sizeof(words[0]))];

    for (size_t i = 0; word[i] && at + i < driver.bytes; i++)
        driver.input[at + i] = (uint8_t)word[i];
}

/* Moves what is behind `to` there from `from`: a piece is lost, or is there twice. */
static void move_piece(size_t from, size_t to)
{
    size_t rest = driver.bytes - from;

    rest = to + rest > FUZZ_MAX_BYTES ? FUZZ_MAX_BYTES - to : rest;
    memmove(driver.input + to, driver.input + from, rest);
    driver.bytes = to + rest;
}

static void damage(void)
{
    size_t at = draw(driver.bytes);

    switch (draw(7)) {
    case 0:
        driver.bytes = at;
        break;
    case 1:
        put_number(at);
        break;
    case 2:
        put_word(at);
        break;
    case 3:
        driver.input[at] = (uint8_t)draw(256);
        break;
    case 4:
        move_piece(at, draw(driver.bytes));
        break;
    case 5: { /* from there on another seed */
        unsigned other = (unsigned)draw(seed_count);
        if (at < seeds[other].bytes) {
            memcpy(driver.input + at, seeds[other].data + at, seeds[other].bytes - at);
            driver.bytes = seeds[other].bytes;
        }
        break;
    }
    default:
        driver.input[at] ^= (uint8_t)(1u << draw(8));
    }
}

static void run_seeds(void)
{
    for (unsigned s = 0; s < seed_count; s++) {
        size_t step = 1 + seeds[s].bytes / MOST_CUTS;
        for (size_t bytes = 0; bytes <= seeds[s].bytes; bytes += step) {
            take_seed(s);
            driver.bytes = bytes;
            run();
        }
        unsigned long accepted = fuzz_accepted;
        take_seed(s);
        run();
        if (fuzz_accepted == accepted) {
            dprintf(driver.terminal, "%s: seed %u is refused\n", driver.name, s);
            exit(1);
        }
    }
}

static void run_damaged(unsigned long runs)
{
    for (unsigned long i = 0; i < runs; i++) {
        take_seed((unsigned)draw(seed_count));
        for (size_t damages = 1 + draw(MOST_DAMAGES); damages > 0 && driver.bytes > 0; damages--)
            damage();
        run();
    }
}

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");

    if (!file) {
        dprintf(driver.terminal, "%s: can't be read\n", path);
        exit(1);
    }
    driver.bytes = fread(driver.input, 1, sizeof(driver.input), file);
    fclose(file);
    run();
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static void open_driver(char *program)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *room = mmap(NULL, FUZZ_MAX_BYTES + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    driver.name = strrchr(program, '/') ? strrchr(program, '/') + 1 : program;
    driver.terminal = dup(STDOUT_FILENO);
    if (room == MAP_FAILED || mprotect(room + FUZZ_MAX_BYTES, page, PROT_NONE) != 0 || nowhere < 0 || driver.terminal < 0)
        abort();
    driver.end = room + FUZZ_MAX_BYTES;
    (void)dup2(nowhere, STDOUT_FILENO);
    close(nowhere);
    while (seed_count < MOST_SEEDS && (seeds[seed_count].bytes = fuzz_seed(seed_count, seeds[seed_count].data)) > 0)
        seed_count++;
}

int main(int argc, char **argv)
{
    char *none[] = {argv[0], NULL}, **arguments = none;
    int count = 1;

    (void)LLVMFuzzerInitialize(&count, &arguments);
    open_driver(argv[0]);
    watch();
    if (argc > 1 && !isdigit((unsigned char)argv[1][0])) {
        for (int i = 1; i < argc; i++)
            run_file(argv[i]);
    } else {
        run_seeds();
        run_damaged(argc > 1 ? strtoul(argv[1], NULL, 10) : 20000);
    }
    dprintf(driver.terminal, "%s: %u seeds, %lu inputs, %lu accepted, no finding\n", driver.name, seed_count, driver.runs,
            fuzz_accepted);
    return fuzz_accepted ? 0 : 1;
}
