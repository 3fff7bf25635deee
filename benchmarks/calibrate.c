/* calibrate.c: loops whose time says what operations cost. Each does its work `times` times and returns how much that
 * was, in the unit of its cost. INGOT_LANES is the number of floats of a vector register: 4, 8 or 16. */
#include "simd.h"
#ifdef _OPENMP
#include <omp.h>
#endif

#define JOIN_(a, b, c) a##b##c
#define JOIN(a, b, c) JOIN_(a, b, c)
#define VECTOR JOIN(f32x, INGOT_LANES, )
#define V(name) JOIN(f32x, INGOT_LANES, name)
#define CHAINS 12 /* more than latency times units */
#define FEW 7     /* twice as many and two operands fit 16 registers */

int64_t clock_cycles(float *out, int64_t times);
int64_t multiply_adds(float *out, int64_t times);
int64_t few_multiply_adds(float *out, int64_t times);
int64_t multiply_adds_and_adds(float *out, int64_t times);
int64_t dependent_multiply_adds(float *out, int64_t times);
int64_t dependent_adds(float *out, int64_t times);
int64_t read_beside(const float *data, int64_t count, int32_t work, float *out, int64_t times);
int64_t fold(const float *data, float *out, int64_t count, int64_t times);
int64_t pass_to_and_fro(float *data, int64_t count, float *out, int64_t times);

/* Keeps a result: the condition never holds, which no compiler knows. */
static void keep(VECTOR x, float *out)
{
    if (V(_reduce_add)(x) < -1e30f) *out = 1.0f;
}

/* Cycles: shifts and exclusive ors that wait for one another, each a cycle (xorshift, Marsaglia 2003). */
int64_t clock_cycles(float *out, int64_t times)
{
    uint64_t x = 88172645463325252u;
    for (int64_t n = 0; n < times; ++n) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    if (x == 0u) *out = 1.0f;
    return 6 * times;
}

#define MULTIPLY_ADDS(name, chains, adds)                                                                              \
    int64_t name(float *out, int64_t times)                                                                            \
    {                                                                                                                  \
        VECTOR a[chains], b[chains], x = V(_set1)(0.999f), y = V(_set1)(0.001f);                                       \
        for (int32_t i = 0; i < chains; ++i) a[i] = b[i] = V(_set1)((float)i);                                         \
        for (int64_t n = 0; n < times; ++n) {                                                                          \
            INGOT_UNROLL(12)                                                                                           \
            for (int32_t i = 0; i < chains; ++i) {                                                                     \
                a[i] = V(_fma)(a[i], x, y);                                                                            \
                if (adds) b[i] = V(_add)(b[i], y);                                                                     \
            }                                                                                                          \
        }                                                                                                              \
        for (int32_t i = 0; i < chains; ++i) a[0] = V(_add)(a[0], V(_add)(a[i], b[i]));                                \
        keep(a[0], out);                                                                                               \
        return chains * times;                                                                                         \
    }

/* Vectors that are multiplied and added; of fewer at once; and such beside as many that are added. */
MULTIPLY_ADDS(multiply_adds, CHAINS, 0)
MULTIPLY_ADDS(few_multiply_adds, FEW, 0)
MULTIPLY_ADDS(multiply_adds_and_adds, FEW, 1)

#define DEPENDENT(name, step)                                                                                          \
    int64_t name(float *out, int64_t times)                                                                            \
    {                                                                                                                  \
        VECTOR a = V(_set1)(0.5f), x = V(_set1)(0.999f), y = V(_set1)(0.001f);                                         \
        for (int64_t n = 0; n < times; ++n) {                                                                          \
            INGOT_UNROLL(8)                                                                                            \
            for (int32_t i = 0; i < 8; ++i) a = step;                                                                  \
        }                                                                                                              \
        keep(V(_add)(a, x), out);                                                                                      \
        return 8 * times;                                                                                              \
    }

/* Operations each of which waits for the one before. */
DEPENDENT(dependent_multiply_adds, V(_fma)(a, x, y))
DEPENDENT(dependent_adds, V(_add)(a, y))

/* Bytes that are read, a multiple of 8 vectors, with `work` times 8 FMAs for each 8 vectors. */
int64_t read_beside(const float *data, int64_t count, int32_t work, float *out, int64_t times)
{
    const int64_t step = 8 * INGOT_LANES;
    VECTOR sums[8], x = V(_set1)(0.999f);
    for (int32_t i = 0; i < 8; ++i) sums[i] = V(_set1)(0.0f);
    for (int64_t n = 0; work == 0 && n < times; ++n) {
        for (int64_t at = 0; at < count; at += step) {
            INGOT_UNROLL(8)
            for (int32_t i = 0; i < 8; ++i) sums[i] = V(_add)(sums[i], V(_load)(&data[at + i * INGOT_LANES]));
        }
    }
    for (int64_t n = 0; work > 0 && n < times; ++n) {
        for (int64_t at = 0; at < count; at += step) {
            INGOT_UNROLL(8)
            for (int32_t i = 0; i < 8; ++i) sums[i] = V(_add)(sums[i], V(_load)(&data[at + i * INGOT_LANES]));
            for (int32_t w = 0; w < work; ++w) {
                INGOT_UNROLL(8)
                for (int32_t i = 0; i < 8; ++i) sums[i] = V(_fma)(sums[i], x, x);
            }
        }
    }
    for (int32_t i = 1; i < 8; ++i) sums[0] = V(_add)(sums[0], sums[i]);
    keep(sums[0], out);
    return 4 * count * times;
}

/* Vectors whose lanes are copied one by one, each from a plane of its own. */
int64_t fold(const float *data, float *out, int64_t count, int64_t times)
{
    const int64_t plane = count / INGOT_LANES + 16;
    for (int64_t n = 0; n < times; ++n) {
        for (int64_t at = 0; at < count / INGOT_LANES; ++at) {
            for (int64_t lane = 0; lane < INGOT_LANES; ++lane) {
                out[at * INGOT_LANES + lane] = data[lane * plane + at];
            }
        }
    }
    return count / INGOT_LANES * times;
}

/* Bytes that one thread reads of what another wrote and writes anew, in turns, on two threads of OpenMP; of none the
 * times that they wait for one another. 0 where there are no two threads. */
int64_t pass_to_and_fro(float *data, int64_t count, float *out, int64_t times)
{
    int64_t done = 0;
#ifdef _OPENMP
    int64_t turn = 0;
    INGOT_OMP(parallel num_threads(2) shared(turn, done))
    if (omp_get_num_threads() == 2) {
        float sum = 0.0f;
        for (int64_t n = omp_get_thread_num(); n < 2 * times; n += 2) {
            while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != n) {
            }
            for (int64_t i = 0; i < count; ++i) {
                sum += data[i];
                data[i] = (float)n;
            }
            __atomic_store_n(&turn, n + 1, __ATOMIC_RELEASE);
        }
        if (sum < -1e30f) *out = sum;
        done = 2 * times * (count > 0 ? 4 * count : 1);
    }
#else
    (void)data, (void)count, (void)out, (void)times;
#endif
    return done;
}
