/* SPDX-License-Identifier: MIT */
#include "paper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct machine machine;
struct play_options options;
struct play_result result;

int paper_set_up(int devices)
{
    graph_machine(&machine, devices);
    play_options_init(&options);
    return 0;
}

void play_one(const struct program *program)
{
    assert_int_equal(play(&result, &program, 1, &machine, &options), 0);
    for (int d = 0; d < result.devices; d++)
        assert_int_equal(result.device[d].engine.busy_ps + result.device[d].engine.idle_ps, result.makespan_ps);
    for (size_t i = 0; i < result.link_count; i++)
        assert_int_equal(result.link[i].busy_ps + result.link[i].idle_ps, result.makespan_ps);
}
