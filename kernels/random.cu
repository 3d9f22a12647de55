/* SPDX-License-Identifier: MIT
 *
 * Normal random numbers by element index: common/sys/random.c's random_normal on the device, the same numbers.
 */
#include "kernels/kernel.h"

using namespace kernel;

namespace {

/* The first two words of Philox4x32-10's block `counter`. */
DEVICE void philox(uint32_t &word0, uint32_t &word1, uint64_t counter, uint64_t stream, uint64_t seed)
{
    uint32_t x0 = static_cast<uint32_t>(counter), x1 = static_cast<uint32_t>(counter >> 32);
    uint32_t x2 = static_cast<uint32_t>(stream), x3 = static_cast<uint32_t>(stream >> 32);
    uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t product0 = static_cast<uint64_t>(x0) * 0xD2511F53u;
        const uint64_t product2 = static_cast<uint64_t>(x2) * 0xCD9E8D57u;
        x0 = static_cast<uint32_t>(product2 >> 32) ^ x1 ^ key0;
        x1 = static_cast<uint32_t>(product2);
        x2 = static_cast<uint32_t>(product0 >> 32) ^ x3 ^ key1;
        x3 = static_cast<uint32_t>(product0);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    word0 = x0;
    word1 = x1;
}

/* Box-Muller in double, so that the float does not depend on the last bits of the mathematical library. */
struct RandomNormal {
    static DEVICE void element(float &y, size_t index, uint64_t seed, uint64_t stream, float deviation)
    {
        uint32_t word0, word1;
        philox(word0, word1, index, stream, seed);
        const double u = (static_cast<double>(word0) + 1.0) * 0x1p-32;
        const double v = static_cast<double>(word1) * 0x1p-32;
        y = deviation * static_cast<float>(sqrt(-2.0 * log(u)) * cos(2.0 * 3.14159265358979323846 * v));
    }
};

} // namespace

/* FLOPs: about 60 for the logarithm, the root and the cosine in double. */
cudaError_t kernel_random_normal(float *y, size_t n, uint64_t seed, uint64_t stream_id, float deviation, cudaStream_t stream)
{
    return launch_elements<RandomNormal>({"random_normal", 60.0 * n, 4.0 * n}, stream, n, out(y, n), index(), value(seed),
                                         value(stream_id), value(deviation));
}
