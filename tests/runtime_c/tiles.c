/* The unit for tiles of integers and plain C make the same sums, of tiles of every height, several steps and several
 * products; vectors and plain C the same slices, which are those of the number. */
#include <stdio.h>
#include "ingot_tiles.h"

enum { ROWS = 50, STEPS = 3, COUNT = 3 };

static int8_t a[COUNT][STEPS * INGOT_SLICES * ROWS * INGOT_TILE_TERMS], b[COUNT][STEPS * INGOT_PANEL_STEP];
static float fast[COUNT][ROWS * INGOT_TILE_COLUMNS], plain[ROWS * INGOT_TILE_COLUMNS];

enum { EVEN = 0x808080, NEXT = 80 };

/* Every other number, of the largest ones, small ones and halves, whose slices are added up again. */
static int slices(void)
{
    int8_t vectors[INGOT_SLICES * NEXT], loops[INGOT_SLICES * NEXT];
    float fixed[64];
    for (int32_t first = -8355000; first <= 8355000 - 64; first += first > -300 && first < 300 ? 1 : 4177) {
        const float half = first + EVEN < (1 << 23) - 64 ? 0.5f : 0.0f;
        for (int32_t k = 0; k < 64; ++k) fixed[k] = (float)(first + k + EVEN) + half;
        ingot_tiles_slices_512(vectors, fixed, NEXT);
        ingot_tiles_slices_plain(loops, fixed, NEXT);
        for (int32_t k = 0; k < 64; ++k) {
            const int32_t at = k % 16 * 4 + k / 16;
            const float sum = (float)(vectors[at] * 65536 + vectors[at + NEXT] * 256 + vectors[at + 2 * NEXT] + EVEN);
            for (int32_t d = 0; d < INGOT_SLICES; ++d) {
                const int8_t mine = vectors[at + NEXT * d], other = loops[at + NEXT * d];
                if (mine != other || sum - fixed[k] > 0.5f || fixed[k] - sum > 0.5f) {
                    printf("%f: slice %d is %d, in plain C %d\n", (double)fixed[k], (int)d, mine, other);
                    return 1;
                }
            }
        }
    }
    return 0;
}

/* The sums of a product, of which no more than those of its rows are made. */
static int same(const float *mine, const int8_t *columns_of, int32_t rows, int32_t columns, int32_t steps, int32_t n)
{
    for (int i = 0; i < ROWS * INGOT_TILE_COLUMNS; ++i) plain[i] = -1.0f;
    ingot_tiles_plain(plain, a[n], columns_of, rows, columns, steps, rows * INGOT_ROW_STEP);
    for (int i = 0; i < ROWS * INGOT_TILE_COLUMNS; ++i) {
        const float difference = mine[i] - plain[i];
        if (difference > 1e-6f * 12e5f || difference < -1e-6f * 12e5f || (i >= rows * columns && mine[i] != -1.0f)) {
            printf("product %d, %d rows, %d columns, %d steps, sum %d: %f, not %f\n", (int)n, (int)rows,
                (int)columns, (int)steps, i, (double)mine[i], (double)plain[i]);
            return 0;
        }
    }
    return 1;
}

/* Products of one panel after the other: of all columns, or of the first or second half of them. */
static int sums(int32_t rows, int32_t columns, int32_t from, int32_t steps)
{
    const int32_t count = 1 + rows % COUNT;
    for (int i = 0; i < COUNT * ROWS * INGOT_TILE_COLUMNS; ++i) ((float *)fast)[i] = -1.0f;
    ingot_tiles_products(fast[0], a[0], b[0] + 64 * from, rows, columns, steps, rows * INGOT_ROW_STEP, sizeof b[0],
        count, sizeof a[0], ROWS * INGOT_TILE_COLUMNS);
    for (int32_t n = 0; n < count; ++n)
        if (!same(fast[n], b[n] + 64 * from, rows, columns, steps, n)) return 0;
    return 1;
}

/* Products of bytes of a mix of signs, whose rows, words and sums have others between them. */
#define BYTES(MIX)                                                                                                     \
    static int bytes_##MIX(int32_t rows, int32_t columns, int32_t words)                                               \
    {                                                                                                                  \
        enum { ROW = 200, LINE = 35, APART = 33 };                                                                     \
        const int8_t *const left = a[0] + 3;                                                                           \
        const int32_t *const right = (const int32_t *)(const void *)b[0];                                              \
        static int32_t found[ROWS * APART];                                                                            \
        for (int i = 0; i < ROWS * APART; ++i) found[i] = -1;                                                          \
        ingot_tiles_##MIX(found, left, right, rows, columns, words, ROW, LINE, APART);                                 \
        for (int32_t m = 0; m < ROWS; ++m) {                                                                           \
            for (int32_t n = 0; n < APART; ++n) {                                                                      \
                int32_t sum = m < rows && n < columns ? 0 : -1;                                                        \
                for (int32_t k = 0; k < words && m < rows && n < columns; ++k)                                         \
                    sum = ingot_dot_##MIX(ingot_load_word(left + ROW * m + 4 * k), right[LINE * k + n], sum);          \
                if (sum != found[m * APART + n]) {                                                                     \
                    printf(#MIX ", %d x %d x %d\n", (int)rows, (int)columns, (int)words);                              \
                    return 0;                                                                                          \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        return 1;                                                                                                      \
    }
BYTES(s8s8)
BYTES(s8u8)
BYTES(u8s8)
BYTES(u8u8)

int main(void)
{
    uint32_t state = 1;
    if (!ingot_tiles_ready() || slices()) return 1;
    for (size_t i = 0; i < sizeof a; ++i) ((int8_t *)a)[i] = (int8_t)((state = state * 1664525u + 1013904223u) >> 24);
    for (size_t i = 0; i < sizeof b; ++i) ((int8_t *)b)[i] = (int8_t)((state = state * 1664525u + 1013904223u) >> 24);
    for (int32_t rows = 1; rows <= ROWS; ++rows) {
        for (int32_t steps = 1; steps <= STEPS; ++steps)
            if (!sums(rows, 32, 0, steps) || !sums(rows, 16, 0, steps) || !sums(rows, 16, 16, steps)) return 1;
    }
    for (int32_t rows = 1; rows <= ROWS; ++rows) {
        const int32_t columns = rows % 3 ? 32 : 16, words = rows % 2 ? 48 : 16;
        if (!bytes_s8s8(rows, columns, words) || !bytes_s8u8(rows, columns, words) || !bytes_u8s8(rows, columns, words)
            || !bytes_u8u8(rows, columns, words)) return 1;
    }
    puts("ok");
    return 0;
}
