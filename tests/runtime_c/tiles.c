/* The unit for tiles of integers and plain C make the same sums, of tiles of every height and several steps; vectors
 * and plain C the same digits, which are those of the number. */
#include <stdio.h>
#include "ingot_tiles.h"

enum { ROWS = 50, STEPS = 3 };

static int8_t a[STEPS * INGOT_DIGITS * ROWS * INGOT_TILE_TERMS], b[STEPS * INGOT_PANEL_STEP];
static float fast[ROWS * INGOT_TILE_COLUMNS], plain[ROWS * INGOT_TILE_COLUMNS];

enum { EVEN = 0x808080, NEXT = 80 };

/* Every other number, of the largest ones, small ones and halves, whose digits are added up again. */
static int digits(void)
{
    int8_t vectors[INGOT_DIGITS * NEXT], loops[INGOT_DIGITS * NEXT];
    float fixed[64];
    for (int32_t first = -8355000; first <= 8355000 - 64; first += first > -300 && first < 300 ? 1 : 4177) {
        const float half = first + EVEN < (1 << 23) - 64 ? 0.5f : 0.0f;
        for (int32_t k = 0; k < 64; ++k) fixed[k] = (float)(first + k + EVEN) + half;
        ingot_tiles_digits_512(vectors, fixed, NEXT);
        ingot_tiles_digits_plain(loops, fixed, NEXT);
        for (int32_t k = 0; k < 64; ++k) {
            const int32_t at = k % 16 * 4 + k / 16;
            const float sum = (float)(vectors[at] * 65536 + vectors[at + NEXT] * 256 + vectors[at + 2 * NEXT] + EVEN);
            for (int32_t d = 0; d < INGOT_DIGITS; ++d) {
                const int8_t mine = vectors[at + NEXT * d], other = loops[at + NEXT * d];
                if (mine != other || sum - fixed[k] > 0.5f || fixed[k] - sum > 0.5f) {
                    printf("%f: digit %d is %d, in plain C %d\n", (double)fixed[k], (int)d, mine, other);
                    return 1;
                }
            }
        }
    }
    return 0;
}

int main(void)
{
    uint32_t state = 1;
    if (!ingot_tiles_ready() || digits()) return 1;
    for (size_t i = 0; i < sizeof a; ++i) a[i] = (int8_t)((state = state * 1664525u + 1013904223u) >> 24);
    for (size_t i = 0; i < sizeof b; ++i) b[i] = (int8_t)((state = state * 1664525u + 1013904223u) >> 24);
    for (int32_t rows = 1; rows <= ROWS; ++rows) {
        for (int32_t steps = 1; steps <= STEPS; ++steps) {
            for (int i = 0; i < ROWS * INGOT_TILE_COLUMNS; ++i) fast[i] = plain[i] = -1.0f;
            ingot_tiles_product(fast, a, b, rows, steps, rows * INGOT_ROW_STEP, 0);
            ingot_tiles_plain(plain, a, b, rows, steps, rows * INGOT_ROW_STEP);
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
