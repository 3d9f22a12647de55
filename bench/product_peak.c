/* SPDX-License-Identifier: MIT */
#include "product_peak.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "gpu/backend.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

/* Clocks that nothing reaches. A processor's own statement is not asked for: virtual machines have none, and some
 * drivers leave the boost out. CPUs are sold up to 6.2 GHz, and the record under liquid helium is 9.1; GPUs boost to 3.
 */
#define CPU_HZ 10e9
#define GPU_HZ 4e9

/* FLOPs a cycle, a multiplication and an addition being two. A core with two 512-bit units for fused multiply-add does
 * 2 x 16 x 2 = 64 in fp32 and 128 in 16 bit; the larger holds for both, since oneDNN can be told to compute fp32 in
 * bf16 (DNNL_DEFAULT_FPMATH_MODE). With tiles: Intel names 1024 in bf16 and 2048 in int8 for AMX; the larger, for the
 * same reason in each type. */
#define CORE_FLOPS 128
#define TILES_FLOPS 2048

/* FLOPs a cycle and multiprocessor of dense products, from NVIDIA's tables of peak rates, by multiprocessors and boost
 * clock: 16 bit: 1024 on V100, 2048 on A100, 4096 on H100, 8192 on B200. fp32 on its own units is 256 on H100, but TF32
 * can be asked for from outside (NVIDIA_TF32_OVERRIDE): half of 16 bit's. GPU_HZ makes twice of it. */
#define GPU_FLOPS_F32 4096
#define GPU_FLOPS_16 8192

static double flops_a_cycle(const struct product_units *units, enum element_type type)
{
    if (units->gpu)
        return type == ELEMENT_F32 ? GPU_FLOPS_F32 : GPU_FLOPS_16;
    return units->tiles ? TILES_FLOPS : CORE_FLOPS;
}

double product_peak(const struct product_units *units, enum element_type type)
{
    return units->count * flops_a_cycle(units, type) * (units->gpu ? GPU_HZ : CPU_HZ);
}

/* Has a core a unit for tiles? x86 tells (AMX-BF16: leaf 7, EDX bit 22, in Intel's manual of instructions). Others'
 * (Arm's SME, Power's MMA) are not asked for: there it may have one. */
static bool has_tiles(void)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1);
#else
    return true;
#endif
}

int product_units_read(struct product_units *units, int device)
{
    struct cudaDeviceProp properties;
    GPU_TRY(cudaGetDeviceProperties(&properties, device));
    units->gpu = gpu_backend_name()[0] == 'c';
    units->tiles = !units->gpu && has_tiles();
    units->count = properties.multiProcessorCount;
    return EXIT_OK;
}

int product_rate_check(const char *what, double flops, double seconds, enum element_type type, int device)
{
    struct product_units units;
    TRY(product_units_read(&units, device));
    const double peak = product_peak(&units, type);
    if (seconds > 0 && flops / seconds <= peak)
        return EXIT_OK;
    log_error(
        "%s: %.4g FLOPs in %.3g us, that is %.4g GFLOP/s; expected at most %.4g, which %d %s%s can't reach in %s: the "
        "time of the launch was taken as that of the run, most likely",
        what, flops, seconds * 1e6, flops / seconds * 1e-9, peak * 1e-9, units.count,
        units.gpu ? "multiprocessor" : "CPU core", units.count == 1 ? "" : "s", element_name(type));
    return EXIT_CHECK_FAILED;
}
