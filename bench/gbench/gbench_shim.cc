// SPDX-License-Identifier: MIT
//
// gbench_shim.h on Google Benchmark's C++ interface.
#include "gbench_shim.h"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>

#include "sys/exit_codes.h"

static benchmark::State &state_of(gbench_state *state) { return *reinterpret_cast<benchmark::State *>(state); }

void gbench_register(const char *name, gbench_function *function, const void *argument)
{
    benchmark::RegisterBenchmark(name, [function, argument](benchmark::State &state) {
        function(reinterpret_cast<gbench_state *>(&state), argument);
    })->UseRealTime();
}

bool gbench_keep_running(gbench_state *state) { return state_of(state).KeepRunning(); }

void gbench_fail(gbench_state *state, const char *message) { state_of(state).SkipWithError(message); }

void gbench_set_rate(gbench_state *state, const char *name, double per_iteration)
{
    state_of(state).counters[name] =
        benchmark::Counter(per_iteration, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

void gbench_set_figure(gbench_state *state, const char *name, double value)
{
    state_of(state).counters[name] = benchmark::Counter(value);
}

int gbench_run(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (std::strstr(argv[i], "format=csv")) {
            std::fprintf(stderr, "%s: CSV is deprecated in Google Benchmark; use json\n", argv[i]);
            return EXIT_USAGE;
        }
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv))
        return EXIT_USAGE;
    const size_t run = benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return run > 0 ? EXIT_OK : EXIT_CHECK_FAILED;
}
