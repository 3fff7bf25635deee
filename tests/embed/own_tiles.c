/* own_tiles.c: a program that uses the unit for tiles itself. The network meets tiles of other shapes and gives the same
 * results, and after a run no thread has any. */
#include "net.h"

#include <immintrin.h>

#include "ingot_tiles.h"

struct shapes { uint8_t palette, start, none[14]; uint16_t bytes[16]; uint8_t rows[16]; };

static void check_none(void)
{
    struct shapes now;
    _tile_storeconfig(&now);
    __asm__ volatile("" : : "r"(&now) : "memory");
    CHECK(now.palette == 0 && now.rows[0] == 0);
}

int main(void)
{
    static const struct shapes own = {1, 0, {0}, {32, 32, 32, 32, 32, 32, 32, 32}, {16, 16, 16, 16, 16, 16, 16, 16}};
    net_type *net = new_instance();
    const float *x = made_up_input(1, 0);
    float *y[2];
    CHECK(ingot_tiles_ready());
    for (int i = 0; i < 2; ++i) {
        y[i] = allocate((size_t)OUTPUT_SIZE * sizeof(float), 64, 0);
        CHECK(net_run(net, x, y[i]) == INGOT_OK);
        INGOT_OMP(parallel)
        check_none();
        _tile_loadconfig(&own);
    }
    _tile_release();
    CHECK(memcmp(y[0], y[1], (size_t)OUTPUT_SIZE * sizeof(float)) == 0);
    return 0;
}
