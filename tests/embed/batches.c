/* batches.c: one network with a symbolic batch, or length, run with several of them in arenas of exactly the right size,
 * then with arenas that are too small and batches that are none. Inputs are counted up; prints every output.
 *
 * The build defines HEADER, NET (the C prefix), IMAGE (floats of one input), ANSWER (floats of one output) and
 * BATCHES (numbers with commas between). */
#define _POSIX_C_SOURCE 200112L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include HEADER

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define net_init JOIN(NET, _init)
#define net_run JOIN(NET, _run)
#define net_arena_bytes JOIN(NET, _arena_bytes)

static void *allocate(size_t bytes)
{
    void *block = NULL;
    if (posix_memalign(&block, 64, bytes) != 0) exit(2);
    return block;
}

static int run(int64_t batch)
{
    const size_t arena_bytes = (size_t)net_arena_bytes(batch);
    void *arena = allocate(arena_bytes);
    float *x = allocate((size_t)batch * IMAGE * sizeof(float)), *y = allocate((size_t)batch * ANSWER * sizeof(float));
    NET *net;
    for (size_t i = 0; i < (size_t)batch * IMAGE; ++i) x[i] = (float)(i % 251u) / 251.0f;
    if (net_init(&net, arena, arena_bytes) != INGOT_OK) return 3;
    if (net_run(net, batch, x, y) != INGOT_OK) return 4;
    for (size_t i = 0; i < (size_t)batch * ANSWER; ++i) printf("%.9g\n", (double)y[i]);
    if (net_run(net, 0, x, y) != INGOT_ERR_DIM || net_run(net, -1, x, y) != INGOT_ERR_DIM) return 5;
    if (net_run(net, INT64_MAX, x, y) != INGOT_ERR_DIM) return 6;
    if (net_run(net, batch + 1, x, y) != INGOT_ERR_ARENA_SIZE) return 7;
    if (net_run(net, INT32_MAX, x, y) != INGOT_ERR_ARENA_SIZE) return 8;
    if (net_init(&net, arena, arena_bytes - 1) != INGOT_OK) return 9;
    if (net_run(net, batch, x, y) != INGOT_ERR_ARENA_SIZE) return 10;
    if (net_init(&net, arena, 1) != INGOT_ERR_ARENA_SIZE) return 11;
    free(arena);
    free(x);
    free(y);
    return 0;
}

int main(void)
{
    static const int64_t batches[] = {BATCHES};
    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); ++i) {
        const int failed = run(batches[i]);
        if (failed) return failed;
    }
    return 0;
}
