/* roofline.c: the two limits of a machine, as loops to be timed: FMAs in registers, and reading of memory.
 * INGOT_LANES is the number of floats of a vector register: 4, 8 or 16. */
#include "simd.h"

#define JOIN_(a, b, c) a##b##c
#define JOIN(a, b, c) JOIN_(a, b, c)
#define VECTOR JOIN(f32x, INGOT_LANES, )
#define V(name) JOIN(f32x, INGOT_LANES, name)
#define SUMS 12 /* independent ones, more than latency times units, and few enough for 16 registers */

int64_t ingot_multiply_adds(float *out, int64_t times);
void ingot_read(const float *data, int64_t count, float *out, int64_t times);

/* SUMS * INGOT_LANES FMAs `times` times on each thread; returns how many those were in all. The condition
 * never holds, which no compiler knows. */
int64_t ingot_multiply_adds(float *out, int64_t times)
{
    int64_t done = 0;
    INGOT_OMP(parallel reduction(+ : done))
    {
        VECTOR sums[SUMS], x = V(_set1)(0.999f), y = V(_set1)(0.001f);
        for (int32_t i = 0; i < SUMS; ++i) sums[i] = V(_set1)((float)i);
        for (int64_t n = 0; n < times; ++n) {
            INGOT_UNROLL(12)
            for (int32_t i = 0; i < SUMS; ++i) sums[i] = V(_fma)(sums[i], x, y);
        }
        for (int32_t i = 1; i < SUMS; ++i) sums[0] = V(_add)(sums[0], sums[i]);
        if (V(_reduce_add)(sums[0]) < 0.0f) *out = 1.0f;
        done += times * SUMS * INGOT_LANES;
    }
    return done;
}

/* Reads `count` floats, a multiple of 8 * INGOT_LANES, `times` times, each thread its part. */
void ingot_read(const float *data, int64_t count, float *out, int64_t times)
{
    const int64_t step = 8 * INGOT_LANES;
    INGOT_OMP(parallel)
    {
        VECTOR sums[8];
        for (int32_t i = 0; i < 8; ++i) sums[i] = V(_set1)(0.0f);
        for (int64_t n = 0; n < times; ++n) {
            INGOT_OMP(for schedule(static))
            for (int64_t block = 0; block < count / step; ++block) {
                INGOT_UNROLL(8)
                for (int32_t i = 0; i < 8; ++i) {
                    sums[i] = V(_add)(sums[i], V(_load)(&data[block * step + i * INGOT_LANES]));
                }
            }
        }
        for (int32_t i = 1; i < 8; ++i) sums[0] = V(_add)(sums[0], sums[i]);
        if (V(_reduce_add)(sums[0]) < 0.0f) *out = 1.0f;
    }
}
