/* SPDX-License-Identifier: MIT
 *
 * The command line: what is refused and with which words, what is resolved, and the canonical texts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/options.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/nearest.h"

#define MAX_WORDS 32

struct line {
    char text[512], *words[MAX_WORDS];
    struct options options;
};

static int parse(struct line *line, const char *program, const char *text)
{
    int count = 1;
    char *rest;

    snprintf(line->text, sizeof line->text, "%s", text);
    line->words[0] = (char *)(uintptr_t)program;
    for (char *word = strtok_r(line->text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        line->words[count++] = word;
    return options_parse(&line->options, program, count, line->words);
}

struct refusal {
    const char *program, *line;
    const char *words[3]; /* that the message must hold: option, value found, what is allowed */
};

static const struct refusal refusals[] = {
    {"dp-train", "--gpus 4x", {"--gpus 4x", "from 1 to 64"}},
    {"dp-train", "--gpus -1", {"--gpus -1", "from 1 to 64"}},
    {"dp-train", "--gpus 0", {"--gpus 0", "from 1 to 64"}},
    {"dp-train", "--gpus 65", {"--gpus 65", "from 1 to 64"}},
    {"dp-train", "--gpus 1e9", {"--gpus 1e9", "from 1 to 64"}},
    {"dp-train", "--gpus nan", {"--gpus nan", "from 1 to 64"}},
    {"dp-train", "--gpus 99999999999999999999999", {"--gpus 9999", "from 1 to 64"}},
    {"dp-train", "--gpus=", {"--gpus", "from 1 to 64"}},
    {"dp-train", "--gpus +4", {"--gpus +4", "from 1 to 64"}},
    {"dp-train", "--gpus", {"--gpus", "N", "end of the line"}},
    {"dp-train", "--global-batch -1", {"--global-batch -1", "from 0 to 16777216"}},
    {"dp-train", "--global-batch 16777217", {"--global-batch 16777217", "16777216"}},
    {"dp-train", "--steps 0", {"--steps 0", "from 1 to 100000000"}},
    {"dp-train", "--warmup -1", {"--warmup -1", "from 0"}},
    {"dp-train", "--accumulate 0", {"--accumulate 0", "from 1 to 64"}},
    {"dp-train", "--lr nan", {"--lr nan", "from 0 to 1000000"}},
    {"dp-train", "--lr inf", {"--lr inf", "from 0"}},
    {"dp-train", "--lr 0x1p3", {"--lr 0x1p3", "from 0 to 1000000"}},
    {"dp-train", "--lr 0x.8", {"--lr 0x.8", "from 0"}},
    {"dp-train", "--lr infinity", {"--lr infinity", "from 0"}},
    {"dp-train", "--lr 1e999", {"--lr 1e999", "from 0"}},
    {"dp-train", "--timeout 0X1p3", {"--timeout 0X1p3", "from 0.1 to 86400"}},
    {"ddp-train", "--bucket-cap-mb 0x10", {"--bucket-cap-mb 0x10", "from 0 to 1048576"}},
    {"dp-train", "--steps 0x10", {"--steps 0x10", "from 1"}},
    {"dp-train", "--lr -0.1", {"--lr -0.1", "from 0"}},
    {"dp-train", "--lr 0.1x", {"--lr 0.1x", "number"}},
    {"dp-train", "--lr 0,1", {"--lr 0,1", "number"}},
    {"dp-train", "--momentum 1.5", {"--momentum 1.5", "from 0 to 1"}},
    {"dp-train", "--timeout 0", {"--timeout 0", "from 0.1 to 86400"}},
    {"dp-train", "--timeout 1e300", {"--timeout 1e300", "86400"}},
    {"dp-train", "--seed -1", {"--seed -1", "18446744073709551615"}},
    {"dp-train", "--seed 18446744073709551616", {"--seed 18446744073709551616", "18446744073709551615"}},
    {"dp-train", "--device tpu", {"--device tpu", "auto, cuda or soft"}},
    {"dp-train", "--device sotf", {"--device sotf", "did you mean soft?"}},
    {"dp-train", "--optimizer adan", {"--optimizer adan", "sgd, adamw or adam", "did you mean adam?"}},
    {"dp-train", "--optimizer adam --nesterov", {"--nesterov", "found adam"}},
    {"dp-train", "--momentum 0 --nesterov", {"--nesterov", "momentum 0"}},
    {"dp-train", "--schedule cosine --lr-warmup 5 --schedule-updates 5", {"--schedule-updates 5", "more than --lr-warmup 5"}},
    {"dp-train", "--gradient-as-bucket-view", {"--gradient-as-bucket-view", "ddp-train"}},
    {"dp-train", "--strategy ddp", {"--strategy ddp", "dp or single"}},
    {"dp-train", "--precision fp8", {"--precision fp8", "fp32, bf16 or fp16"}},
    {"dp-train", "--global-batsh 4", {"unknown option --global-batsh", "did you mean --global-batch?"}},
    {"ddp-train", "--gpus 4 --sampler distributed --global-batch 6", {"6 found", "multiple of 4", "4 and 8"}},
    {"ddp-train", "--gpus 8 --sampler distributed --global-batch 4", {"4 found", "the nearest is 8"}},
    {"dp-train",
     "--gpus 2 --sampler distributed --global-batch 6 --accumulate 2",
     {"6 found", "multiple of 4", "4 and 8"}},
    {"dp-train", "--drop-last", {"--drop-last", "--sampler distributed"}},
    {"dp-train", "--sampler random", {"--sampler random", "chunk or distributed"}},
    {"dp-train", "--frobnicate", {"unknown option --frobnicate", "--help"}},
    {"dp-train", "--checksum=yes", {"--checksum", "takes no value", "yes"}},
    {"dp-train", "train.txt", {"unexpected argument train.txt"}},
    {"dp-train", "--", {"unexpected argument --"}},
    {"dp-train", "-g 4", {"unexpected argument -g"}},
    {"dp-train", "--bucket-cap-mb 25", {"--bucket-cap-mb", "ddp-train"}},
    {"dp-train", "--strategy single --gpus 2", {"--gpus 2", "single has one device"}},
    {"dp-train", "--gpus 2 --output-device 2", {"--output-device 2", "from 0 to 1", "--gpus 2"}},
    {"dp-train", "--global-batch 8 --batch-per-gpu 4", {"--global-batch 8", "--batch-per-gpu 4", "give one"}},
    {"dp-train", "--loss-average ranks", {"--loss-average ranks", "whole batch"}},
    {"ddp-train", "--dp-transport p2p", {"--dp-transport", "dp-train"}},
    {"ddp-train", "--strategy ddp", {"--strategy", "dp-train"}},
    {"ddp-train", "--find-unused", {"--find-unused", "not available in this version"}},
    {"ddp-train", "--static-graph", {"--static-graph", "not available in this version"}},
    {"ddp-train", "--comm-hook bf16", {"--comm-hook", "not available in this version"}},
    {"ddp-train", "--bucket-cap-mb -1", {"--bucket-cap-mb -1", "from 0"}},
    {"dp-train", "--loss-scale 1024", {"--loss-scale 1024: has no effect with --precision fp32", "expected --precision fp16"}},
    {"ddp-train", "--precision bf16 --loss-scale 8", {"--loss-scale 8", "--precision bf16", "expected --precision fp16"}},
    {"dp-train", "--optimizer adam --momentum 0.5", {"--momentum 0.5", "--optimizer adam", "expected --optimizer sgd"}},
    {"ddp-train", "--optimizer adamw --momentum 0", {"--momentum 0", "--optimizer adamw", "expected --optimizer sgd"}},
    {"dp-train", "--schedule-updates 9", {"--schedule-updates 9", "--schedule constant", "cosine or linear"}},
    {"ddp-train", "--drop-last", {"--drop-last: has no effect with --sampler chunk"}},
    {"ddp-train", "--loaders 4", {"--loaders 4", "--data synthetic", "a folder or a file"}},
    {"dp-train", "--strategy single --dp-transport p2p", {"--dp-transport p2p", "--strategy single", "--strategy dp"}},
    {"dp-train", "--dp-loss gathered --strategy single", {"--dp-loss gathered", "--strategy single"}},
    {"dp-train", "--strategy single --output-device 0", {"--output-device 0", "--strategy single"}},
    {"dp-train", "--shape-only --trace x", {"--shape-only", "--trace"}},
    {"dp-train", "--find-batch --trace x", {"--find-batch", "--trace"}},
    {"dp-train", "--find-batch --record x", {"--find-batch", "--record"}},
    {"dp-train", "--steps 5 --epochs 2", {"--steps 5", "--epochs 2", "give one"}},
    {"ddp-train", "--local_rank 64", {"--local-rank 64", "from 0 to 63"}},
};

static void refuses_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *refusal = &refusals[i];
        struct line line;
        int status = parse(&line, refusal->program, refusal->line);
        if (status != EXIT_USAGE)
            fail_msg("'%s' gave %d, expected %d", refusal->line, status, EXIT_USAGE);
        for (int w = 0; w < 3 && refusal->words[w]; w++)
            if (!strstr(log_last_error(), refusal->words[w]))
                fail_msg("'%s' was refused with '%s', which does not say '%s'", refusal->line, log_last_error(),
                         refusal->words[w]);
    }
}

static void has_pytorchs_defaults(void **state)
{
    struct line line;

    (void)state;
    assert_int_equal(parse(&line, "dp-train", ""), 0);
    assert_string_equal(line.options.strategy, "dp");
    assert_int_equal(line.options.gpus, 1);
    assert_int_equal(line.options.global_batch, 128);
    assert_int_equal(line.options.batch_per_gpu, 128);
    assert_float_equal(line.options.optimizer.lr, 0.01, 1e-9);
    assert_float_equal(line.options.optimizer.weight_decay, 0, 0);
    assert_int_equal(parse(&line, "ddp-train", "--optimizer adamw"), 0);
    assert_string_equal(line.options.strategy, "ddp");
    assert_float_equal(line.options.optimizer.lr, 0.001, 1e-9);
    assert_float_equal(line.options.optimizer.weight_decay, 0.01, 1e-9);
    assert_float_equal(line.options.bucket_cap_mib, 25, 0);
    assert_int_equal(line.options.local_rank, -1);
}

/* What has no effect at N = 1 alone, or in a question about a run, is taken: the same line serves all N and the run. */
static void takes_what_another_number_of_devices_needs(void **state)
{
    static const char *const lines[][2] = {
        {"dp-train", "--gpus 1 --dp-transport p2p --dp-loss replica --output-device 0 --lr-scale linear"},
        {"ddp-train", "--gpus 1 --bucket-cap-mb 1 --no-overlap --gradient-as-bucket-view --loss-average ranks --sync-bn"},
        {"ddp-train", "--find-batch --lr 0.1 --steps 5 --seed 2 --precision fp16 --loss-scale 8"},
        {"dp-train", "--shape-only --data digits --loaders 3 --optimizer sgd --momentum 0.5"},
        {"dp-train", "--schedule linear --schedule-updates 9 --lr-warmup 2 --epochs 3 --warmup 1"}};

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct line line;
        assert_int_equal(parse(&line, lines[i][0], lines[i][1]), 0);
    }
}

/* Trial 39: one meaning in both programs, both numbers resolved. */
static void means_the_same_batch_in_both(void **state)
{
    static const char *const programs[] = {"dp-train", "ddp-train"};

    (void)state;
    for (int p = 0; p < 2; p++) {
        struct line line;
        assert_int_equal(parse(&line, programs[p], "--gpus 4 --global-batch 512"), 0);
        assert_int_equal(line.options.global_batch, 512);
        assert_int_equal(line.options.batch_per_gpu, 128);
        assert_int_equal(parse(&line, programs[p], "--batch-per-gpu 32 --gpus 4"), 0);
        assert_int_equal(line.options.global_batch, 128);
        assert_int_equal(line.options.batch_per_gpu, 32);
        options_set_gpus(&line.options, 8);
        assert_int_equal(line.options.global_batch, 256);
        assert_int_equal(parse(&line, programs[p], "--gpus 4 --global-batch 9"), 0);
        assert_int_equal(line.options.global_batch, 9);
        assert_int_equal(line.options.batch_per_gpu, 3);
    }
}

static void takes_both_spellings(void **state)
{
    struct line line;

    (void)state;
    assert_int_equal(parse(&line, "ddp-train", "--local_rank=3"), 0);
    assert_int_equal(line.options.local_rank, 3);
    assert_int_equal(parse(&line, "ddp-train", "--local-rank 2 --no-overlap"), 0);
    assert_int_equal(line.options.local_rank, 2);
    assert_true(line.options.no_overlap);
    assert_int_equal(parse(&line, "ddp-train", "--device-memory 64 --seed 18446744073709551615"), 0);
    assert_int_equal(line.options.device_memory, 64 << 20);
    assert_true(line.options.seed == UINT64_MAX);
}

static void tells_canonical_text(void **state)
{
    struct line a, b;

    (void)state;
    assert_int_equal(parse(&a, "ddp-train", "--gpus 4 --lr 0.05 --json x.json"), 0);
    assert_int_equal(parse(&b, "ddp-train", "--json y.json --lr 5e-2 --gpus=4 --local-rank 1"), 0);
    char *first = options_canonical(&a.options), *second = options_canonical(&b.options);
    assert_string_equal(first, second);
    assert_non_null(strstr(first, "gpus=4;"));
    assert_non_null(strstr(first, "lr=0.05;"));
    free(second);
    assert_int_equal(parse(&b, "ddp-train", "--gpus 4 --lr 0.05 --seed 2"), 0);
    second = options_canonical(&b.options);
    assert_string_not_equal(first, second);
    free(first);
    free(second);
}

static void expect_variant(const char *program, const char *text, const char *expected)
{
    struct line line;

    assert_int_equal(parse(&line, program, text), 0);
    char *variant = options_variant(&line.options);
    assert_string_equal(variant, expected);
    free(variant);
}

static void tells_variant(void **state)
{
    (void)state;
    expect_variant("dp-train", "--gpus 4 --global-batch 64 --steps 7 --seed 3", "");
    expect_variant("dp-train", "--dp-transport p2p --classes 32768", "classes=32768;transport=p2p");
    expect_variant("dp-train", "--classes 32768 --dp-transport p2p", "classes=32768;transport=p2p");
    expect_variant("ddp-train", "--bucket-cap-mb 4", "bucket_cap_mb=4");
    expect_variant("ddp-train", "--bucket-cap-mb 25 --no-overlap", "no_overlap=1");
    expect_variant("ddp-train", "--optimizer adamw", "");
    expect_variant("ddp-train", "--optimizer adamw --lr 0.01", "lr=0.01");
    expect_variant("ddp-train", "--optimizer adam --weight-decay 0.01", "weight_decay=0.01");
    expect_variant("dp-train", "--precision bf16 --nesterov --clip-norm 0.5", "nesterov=1;clip_norm=0.5");
    expect_variant("ddp-train", "--gradient-as-bucket-view --schedule cosine --lr-warmup 5 --lr-scale linear --gpus 4",
                   "schedule=cosine;lr_warmup=5;lr_scale=linear;gradient_as_bucket_view=1");
    expect_variant("dp-train", "--precision fp16 --loss-scale 1024", "loss_scale=1024");
}

/* --lr stays what was given; the optimizer gets it times 1, N or the root of N. */
static void scales_the_learning_rate(void **state)
{
    static const struct {
        const char *text;
        float lr;
    } cells[] = {{"--gpus 4 --lr 0.1", 0.1F},
                 {"--gpus 4 --lr 0.1 --lr-scale linear", 0.4F},
                 {"--gpus 4 --lr 0.1 --lr-scale sqrt", 0.2F},
                 {"--gpus 1 --optimizer adam --lr-scale linear", 0.001F},
                 {"--gpus 8 --optimizer adam --lr-scale linear", 0.008F}};
    struct line line;

    (void)state;
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        assert_int_equal(parse(&line, "ddp-train", cells[i].text), 0);
        assert_true(options_optimizer(&line.options).lr == cells[i].lr);
    }
}

static void finds_the_nearest_name(void **state)
{
    static const char *const names[] = {"gpus", "global-batch", "json"};

    (void)state;
    assert_string_equal(nearest_name("gpsu", names, 3), "gpus");
    assert_string_equal(nearest_name("global_batch", names, 3), "global-batch");
    assert_null(nearest_name("zzzz", names, 3));
    assert_null(nearest_name("", names, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(takes_what_another_number_of_devices_needs),
        cmocka_unit_test(has_pytorchs_defaults),
        cmocka_unit_test(means_the_same_batch_in_both),
        cmocka_unit_test(takes_both_spellings),
        cmocka_unit_test(tells_canonical_text),
        cmocka_unit_test(tells_variant),
        cmocka_unit_test(scales_the_learning_rate),
        cmocka_unit_test(finds_the_nearest_name),
    };

    log_set_program("test_options");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
