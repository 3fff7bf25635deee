/* The unit for tiles of integers and plain C make the same sums, of tiles of every height and several steps. */
#include <stdio.h>
#include "ingot_tiles.h"

enum { ROWS = 50, STEPS = 3 };

static int8_t a[STEPS * INGOT_DIGITS * ROWS * INGOT_TILE_TERMS], b[STEPS * INGOT_PANEL_STEP];
static float fast[ROWS * INGOT_TILE_COLUMNS], plain[ROWS * INGOT_TILE_COLUMNS];

int main(void)
{
    uint32_t state = 1;
    if (!ingot_tiles_ready()) return 1;
    for (size_t i = 0; i < sizeof a; ++i) a[i] = (int8_t)((state = state * 1664525u + 1013904223u) >> 24);
    for (size_t i = 0; i < sizeof b; ++i) b[i] = (int8_t)((state = state * 1664525u + 1013904223u) >> 24);
    for (int32_t rows = 1; rows <= ROWS; ++rows) {
        for (int32_t steps = 1; steps <= STEPS; ++steps) {
            for (int i = 0; i < ROWS * INGOT_TILE_COLUMNS; ++i) fast[i] = plain[i] = -1.0f;
            ingot_tiles_unit(fast, a, b, rows, steps, rows * INGOT_TILE_TERMS);
            ingot_tiles_plain(plain, a, b, rows, steps, rows * INGOT_TILE_TERMS);
            for (int i = 0; i < ROWS * INGOT_TILE_COLUMNS; ++i) {
                const float difference = fast[i] - plain[i];
                if (difference > 1e-6f * 12e5f || difference < -1e-6f * 12e5f || (i >= rows * 32 && fast[i] != -1.0f)) {
                    printf("%d rows, %d steps, sum %d: %f, not %f\n", (int)rows, (int)steps, i, (double)fast[i],
                        (double)plain[i]);
                    return 1;
                }
            }
        }
    }
    puts("ok");
    return 0;
}
