/* ingot_tiles.h: products on a processor's unit for tiles of 8-bit integers (AMX): of bytes (ingot_tiles_u8s8 and its
 * like), and of float matrices in fixed point.
 *
 * A row x of floats is s * d, d = d0 + d1 / 256 + d2 / 65536 with slices of -128 to 127 and one scale s for the row:
 * 23 bits below the row's largest magnitude, as many as a float has. Sums of products of slices are exact in 32 bits;
 * those that weigh less than 2^-16 of the first ones are left out (Ozaki's scheme: Ootomo, Ozaki and Yokota 2024). The
 * result is as near as that of floats, measured by the largest magnitudes of row and column.
 *
 * Without such a unit, or where the system denies it, the same sums are made in plain C. */
#ifndef INGOT_TILES_H
#define INGOT_TILES_H

#include "ingot_math.h"

#define INGOT_SLICES 3
#define INGOT_TILE_TERMS 64   /* of the sums that one step of the unit adds up */
#define INGOT_TILE_COLUMNS 32 /* of a panel of the second matrix: two tiles */
#define INGOT_PANEL_STEP (INGOT_SLICES * INGOT_TILE_COLUMNS * INGOT_TILE_TERMS) /* bytes of a panel for a step */
#define INGOT_ROW_STEP (INGOT_SLICES * INGOT_TILE_TERMS) /* bytes of a row for a step */
#define INGOT_TILES_FEW 5     /* rows, whose slices are one tile's rows */
#define INGOT_TILES_STREAM 8192 /* bytes that they are asked for columns ahead */
#define INGOT_TILES_AHEAD 8   /* pairs of tiles during which a panel comes, or all where there are fewer */

/* The sum of those of weight 1, 1 / 256 and 1 / 65536. */
INGOT_INLINE float ingot_tiles_weighed(int32_t first, int32_t middle, int32_t last)
{
    return (float)first + ((float)middle + (float)last / 256.0f) / 256.0f;
}

#if (defined(__AMX_INT8__) || defined(__AMXINT8__)) && defined(__AVX512F__) && defined(__linux__)
#define INGOT_HAS_TILES 1 /* __AMXINT8__: clang before 16 */
#include <immintrin.h>
#include <string.h>

/* Linux gives a process the tiles' registers on demand (arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). */
INGOT_INLINE int ingot_tiles_ready(void)
{
    static int known; /* 1: allowed, -1: denied */
    int state = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (state == 0) {
        long result = 158;
        __asm__ volatile("syscall" : "+a"(result) : "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
        state = result == 0 ? 1 : -1;
        __atomic_store_n(&known, state, __ATOMIC_RELAXED);
    }
    return state > 0;
}

/* Tiles below `columns` have so many rows, those of slices of columns 16. Shapes are kept from call to call until
 * ingot_tiles_end, for new ones make the unit wait until all before is done. */
INGOT_INLINE void ingot_tiles_begin(int32_t rows, int32_t columns)
{
    struct { uint8_t palette, start, none[14]; uint16_t bytes[16]; uint8_t rows[16]; } shape, now;
    memset(&shape, 0, sizeof shape);
    shape.palette = 1;
    for (int i = 0; i < 8; ++i) {
        shape.bytes[i] = 64;
        shape.rows[i] = (uint8_t)(i < columns ? rows : 16);
    }
    _tile_storeconfig(&now);
    __asm__ volatile("" : : "r"(&shape), "r"(&now) : "memory"); /* gcc thinks that 8 bytes of them are used */
    if (memcmp(&now, &shape, sizeof now) != 0) _tile_loadconfig(&shape);
}

/* A tile whose sums have left the unit, if any: its rows, and the floats from one row's sums to the next one's. */
typedef struct { float *sums; const int32_t *part; int32_t rows, columns; } ingot_tiles_before;

/* Some of its rows: join the sums of the three weights. */
INGOT_INLINE void ingot_tiles_join(const ingot_tiles_before *before, int32_t from, int32_t to)
{
    const __m512 unit = _mm512_set1_ps(1.0f / 256.0f);
    for (int32_t i = from; i < to; ++i) {
        const int32_t *part = before->part + 16 * i;
        __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(part + 512));
        sum = _mm512_fmadd_ps(sum, unit, _mm512_cvtepi32_ps(_mm512_load_si512(part + 256)));
        sum = _mm512_fmadd_ps(sum, unit, _mm512_cvtepi32_ps(_mm512_load_si512(part)));
        _mm512_storeu_ps(before->sums + (ptrdiff_t)before->columns * i, sum);
    }
}

/* Join a quarter of its rows. */
INGOT_INLINE void ingot_tiles_quarter(const ingot_tiles_before *before, int32_t quarter)
{
    if (before && before->sums) {
        const int32_t share = (before->rows + 3) / 4, to = share * (quarter + 1);
        ingot_tiles_join(before, share * quarter, to < before->rows ? to : before->rows);
    }
}

/* Lines that are asked for, some at each of a step's six products: `odd` bytes from a product's to the next one's,
 * `pair` to those of the next but one, and `step` to those of the next step. */
typedef struct { const char *from; ptrdiff_t odd, pair, step; int32_t lines; } ingot_tiles_next;

INGOT_INLINE void ingot_tiles_ahead(const ingot_tiles_next *next, ptrdiff_t step, int32_t product)
{
    const char *at = next->from + next->step * step + next->pair * (product / 2) + next->odd * (product % 2);
    for (int32_t i = 0; i < next->lines; ++i)
        _mm_prefetch(at + 64 * i, _MM_HINT_T1);
}

/* Add a step's products to the sums of a tile. Tile 0 has those of weight 1, tile 1 those of 1 / 256, tile 2 those of
 * 1 / 65536, 3 slices of rows, 4 and 5 slices of columns: where a core's other thread is busy, all eight in use take
 * twice as long as six. Products of one sum follow one another, across steps too. Between them the tile before is
 * joined, and lines that are needed later come to L2, for all at once would hold up loads. */
INGOT_INLINE void ingot_tiles_step(const int8_t *a, const int8_t *b, const ingot_tiles_next *ahead, ptrdiff_t step,
    const ingot_tiles_before *before)
{
    const ptrdiff_t next = INGOT_PANEL_STEP / INGOT_SLICES;
    _tile_loadd(3, a + 2 * INGOT_TILE_TERMS, INGOT_ROW_STEP);
    _tile_loadd(4, b, 64);
    _tile_dpbssd(2, 3, 4);
    ingot_tiles_quarter(before, 0);
    ingot_tiles_ahead(ahead, step, 0);
    _tile_loadd(3, a + INGOT_TILE_TERMS, INGOT_ROW_STEP);
    _tile_loadd(5, b + next, 64);
    _tile_dpbssd(2, 3, 5);
    ingot_tiles_ahead(ahead, step, 1);
    ingot_tiles_quarter(before, 1);
    _tile_dpbssd(1, 3, 4);
    ingot_tiles_ahead(ahead, step, 2);
    _tile_loadd(3, a, INGOT_ROW_STEP);
    _tile_dpbssd(1, 3, 5);
    ingot_tiles_ahead(ahead, step, 3);
    ingot_tiles_quarter(before, 2);
    _tile_dpbssd(0, 3, 4);
    ingot_tiles_ahead(ahead, step, 4);
    ingot_tiles_quarter(before, 3);
    _tile_loadd(4, b + 2 * next, 64);
    _tile_dpbssd(2, 3, 4);
    ingot_tiles_ahead(ahead, step, 5);
}

/* The slices of 16 columns that rows meet in one step, for ingot_tiles_kept. */
INGOT_INLINE void ingot_tiles_keep(const int8_t *b)
{
    const ptrdiff_t next = INGOT_PANEL_STEP / INGOT_SLICES;
    _tile_loadd(4, b, 64);
    _tile_loadd(5, b + next, 64);
    _tile_loadd(6, b + 2 * next, 64);
}

/* A step whose columns' slices are in tiles 4, 5 and 6 for all rows. */
INGOT_INLINE void ingot_tiles_kept(const int8_t *a, const ingot_tiles_before *before)
{
    _tile_loadd(3, a + 2 * INGOT_TILE_TERMS, INGOT_ROW_STEP);
    _tile_dpbssd(2, 3, 4);
    ingot_tiles_quarter(before, 0);
    _tile_loadd(3, a + INGOT_TILE_TERMS, INGOT_ROW_STEP);
    _tile_dpbssd(2, 3, 5);
    ingot_tiles_quarter(before, 1);
    _tile_dpbssd(1, 3, 4);
    _tile_loadd(3, a, INGOT_ROW_STEP);
    _tile_dpbssd(1, 3, 5);
    ingot_tiles_quarter(before, 2);
    _tile_dpbssd(0, 3, 4);
    ingot_tiles_quarter(before, 3);
    _tile_dpbssd(2, 3, 6);
}

INGOT_INLINE void ingot_tiles_sum(const int8_t *a, ptrdiff_t step, const int8_t *b, int32_t steps,
    const ingot_tiles_next *ahead, const ingot_tiles_before *before)
{
    _tile_zero(2);
    _tile_zero(1);
    _tile_zero(0);
    if (steps == 1) {
        ingot_tiles_kept(a, before);
        return;
    }
    ingot_tiles_step(a, b, ahead, 0, before);
    for (ptrdiff_t k = 1; k < steps; ++k)
        ingot_tiles_step(a + step * k, b + INGOT_PANEL_STEP * k, ahead, k, NULL);
}

INGOT_INLINE void ingot_tiles_store(int32_t *part)
{
    _tile_stored(2, part + 512, 64);
    _tile_stored(1, part + 256, 64);
    _tile_stored(0, part, 64);
}

/* As ingot_tiles_products, with the unit: tiles of equal height, the last of which begins earlier where rows are no
 * whole tiles. While a panel is used the next one comes to L2: line after line, or the same half of it,
 * where 1 KB is one tile's and the next the other's. A panel of one step is as near as the memory's own guess, and its
 * halves stay in tiles for all rows. */
INGOT_INLINE void ingot_tiles_unit(float *sums, const int8_t *a, const int8_t *b, int32_t rows, int32_t columns,
    int32_t steps, ptrdiff_t step, ptrdiff_t panel, int32_t count, ptrdiff_t next, ptrdiff_t apart)
{
    const int32_t tiles = (rows + 15) / 16, height = (rows + tiles - 1) / tiles, halves = columns / 16;
    const int kept = steps == 1;
    const int32_t lines = tiles < INGOT_TILES_AHEAD ? (INGOT_TILES_AHEAD + tiles - 1) / tiles : 1;
    const ingot_tiles_next whole = {NULL, 64 * lines, 2 * 64 * lines, 6 * 64 * lines, lines};
    const ingot_tiles_next half = {NULL, 512, 2048, INGOT_PANEL_STEP, lines};
    const ptrdiff_t share = halves == 2 ? whole.step * steps : 64 * lines;
    INGOT_ALIGNED(64) int32_t part[INGOT_SLICES * 16 * 16];
    ingot_tiles_before before = {NULL, part, height, columns};
    ingot_tiles_next ahead = halves == 2 ? whole : half;
    ingot_tiles_begin(height, 4);
    for (int32_t n = 0; n < count; ++n, a += next, b += panel, sums += apart) {
        for (int32_t outer = 0, tile = 0; outer < (kept ? halves : tiles); ++outer) {
            if (kept) ingot_tiles_keep(b + 1024 * outer);
            for (int32_t inner = 0; inner < (kept ? tiles : halves); ++inner, ++tile) {
                const int32_t side = kept ? outer : inner, at = (kept ? inner : outer) * height;
                const int32_t row = at + height < rows ? at : rows - height;
                ahead.from = (const char *)b + panel + share * tile;
                ahead.lines = tile < halves * INGOT_TILES_AHEAD ? lines : 0;
                ingot_tiles_sum(a + (ptrdiff_t)row * INGOT_ROW_STEP, step, b + 1024 * side, steps, &ahead, &before);
                ingot_tiles_store(part);
                before.sums = sums + (ptrdiff_t)columns * row + 16 * side;
            }
        }
    }
    ingot_tiles_join(&before, 0, height);
}

/* Add the products of all slices of the rows, tile 6, and one slice of 16 columns. */
#define INGOT_TILES_ADD(sums, b)                                                                                       \
    _tile_loadd(7, b, 64);                                                                                             \
    _tile_dpbssd(sums, 6, 7);                                                                                          \
    for (int32_t i = 0; i < 16; ++i) _mm_prefetch((const char *)(b) + INGOT_TILES_STREAM + 64 * i, _MM_HINT_T0)

/* One of ingot_tiles_products, with the unit, of at most INGOT_TILES_FEW rows: their slices are the rows of one tile,
 * and columns are read once, line after line, for that takes the time. Tiles 0 and 1 are sums with the columns' slices
 * of weight 1, 2 and 3 with the next, 4 and 5 with the last. */
INGOT_INLINE void ingot_tiles_few(float *sums, const int8_t *a, const int8_t *b, int32_t rows, int32_t columns,
    int32_t steps, ptrdiff_t step)
{
    const ptrdiff_t next = INGOT_PANEL_STEP / INGOT_SLICES;
    INGOT_ALIGNED(64) int32_t part[INGOT_SLICES][INGOT_TILES_FEW * INGOT_SLICES][16];
    ingot_tiles_begin(INGOT_SLICES * rows, 7);
    _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3); _tile_zero(4); _tile_zero(5);
    for (int32_t k = 0; k < steps; ++k, a += step, b += INGOT_PANEL_STEP) {
        _tile_loadd(6, a, 64);
        INGOT_TILES_ADD(0, b); INGOT_TILES_ADD(2, b + next); INGOT_TILES_ADD(4, b + 2 * next);
        if (columns > 16) {
            INGOT_TILES_ADD(1, b + 1024); INGOT_TILES_ADD(3, b + next + 1024); INGOT_TILES_ADD(5, b + 2 * next + 1024);
        }
    }
    for (int32_t side = 0; side < columns; side += 16) { /* half of the columns, on half of the stack */
        if (side == 0) {
            _tile_stored(0, part[0], 64); _tile_stored(2, part[1], 64); _tile_stored(4, part[2], 64);
        } else {
            _tile_stored(1, part[0], 64); _tile_stored(3, part[1], 64); _tile_stored(5, part[2], 64);
        }
        for (int32_t row = 0; row < rows; ++row) {
            const int32_t n = INGOT_SLICES * row;
            for (int32_t i = 0; i < 16; ++i) {
                const int32_t middle = part[0][n + 1][i] + part[1][n][i];
                const int32_t last = part[0][n + 2][i] + part[1][n + 1][i] + part[2][n][i];
                sums[row * columns + side + i] = ingot_tiles_weighed(part[0][n][i], middle, last);
            }
        }
    }
}
#endif

/* What a thread does after its last products: its tiles need not be saved any more where the system interrupts it. */
INGOT_INLINE void ingot_tiles_end(void)
{
#if defined(INGOT_HAS_TILES)
    if (ingot_tiles_ready()) _tile_release();
#endif
}

/* The sum of the products of some slices of a row and of a panel's column, in a step. */
INGOT_INLINE int32_t ingot_tiles_dot(const int8_t *a, const int8_t *b, int32_t column)
{
    int32_t sum = 0;
    for (int32_t k = 0; k < INGOT_TILE_TERMS; ++k)
        sum += a[k] * b[column / 16 * 1024 + k / 4 * 64 + column % 16 * 4 + k % 4];
    return sum;
}

/* One of ingot_tiles_products, without a unit. */
INGOT_INLINE void ingot_tiles_plain(float *sums, const int8_t *a, const int8_t *b, int32_t rows, int32_t columns,
    int32_t steps, ptrdiff_t step)
{
    const ptrdiff_t next = INGOT_PANEL_STEP / INGOT_SLICES;
    for (int32_t row = 0; row < rows; ++row) {
        for (int32_t column = 0; column < columns; ++column) {
            const int8_t *x = a + (ptrdiff_t)row * INGOT_ROW_STEP, *w = b;
            int32_t part[INGOT_SLICES] = {0, 0, 0};
            for (int32_t k = 0; k < steps; ++k, x += step, w += INGOT_PANEL_STEP)
                for (int32_t d = 0; d < INGOT_SLICES; ++d)
                    for (int32_t e = 0; e + d < INGOT_SLICES; ++e)
                        part[d + e] += ingot_tiles_dot(x + d * INGOT_TILE_TERMS, w + e * next, column);
            sums[row * columns + column] = ingot_tiles_weighed(part[0], part[1], part[2]);
        }
    }
}

/* sums [rows, columns]: of the products of rows and a panel's 32 columns, or 16 of them, to be multiplied with both
 * scales.
 * a: slices of the rows, [steps][rows of all][3][64]; step: the bytes from one step to the next.
 * b: those of the panel, [steps][3][2][16][16][4]: slice, column / 16, term / 4, column % 16, term % 4, from the first
 * column on; panel: the bytes from it to the one that is used next.
 * So `count` times, each with the next panel, rows that are `next` bytes further on, and sums, `apart` floats. */
INGOT_INLINE void ingot_tiles_products(float *sums, const int8_t *a, const int8_t *b, int32_t rows, int32_t columns,
    int32_t steps, ptrdiff_t step, ptrdiff_t panel, int32_t count, ptrdiff_t next, ptrdiff_t apart)
{
#if defined(INGOT_HAS_TILES)
    const int ready = ingot_tiles_ready();
    if (ready && rows > INGOT_TILES_FEW) {
        ingot_tiles_unit(sums, a, b, rows, columns, steps, step, panel, count, next, apart);
        return;
    }
#endif
    for (int32_t n = 0; n < count; ++n, a += next, b += panel, sums += apart) {
#if defined(INGOT_HAS_TILES)
        if (ready) {
            ingot_tiles_few(sums, a, b, rows, columns, steps, step);
            continue;
        }
#endif
        ingot_tiles_plain(sums, a, b, rows, columns, steps, step);
    }
}

/* One of them. */
INGOT_INLINE void ingot_tiles_product(float *sums, const int8_t *a, const int8_t *b, int32_t rows, int32_t columns,
    int32_t steps, ptrdiff_t step, ptrdiff_t panel)
{
    ingot_tiles_products(sums, a, b, rows, columns, steps, step, panel, 1, 0, 0);
}

/* Products of bytes, whose sums are exact: of rows of bytes, each as long as `words` words of four of them, and of columns,
 * whose words lie `line` of them from one to the next; mixes of signs are those of ingot_dot_u8s8 and its like.
 * sums [rows, columns], `apart` numbers from a row to the next one; columns: 16 or 32; words: a multiple of 16; row: the
 * bytes from a row to the next one.
 * With the unit two tiles of rows of equal height, the last of which begin earlier where rows are no whole tiles, meet two
 * of columns: tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 columns. */
#if defined(INGOT_HAS_TILES)
#define INGOT_BYTE_TILES_UNIT(MIX)                                                                                     \
    INGOT_INLINE void ingot_tiles_unit_##MIX(int32_t *sums, const void *a, const int32_t *b, int32_t rows,             \
        int32_t columns, int32_t words, ptrdiff_t row, ptrdiff_t line, ptrdiff_t apart)                                \
    {                                                                                                                  \
        const int32_t tiles = (rows + 15) / 16, height = (rows + tiles - 1) / tiles, wide = columns > 16;              \
        const int32_t line_bytes = (int32_t)(4 * line), sum_bytes = (int32_t)(4 * apart), row_bytes = (int32_t)row;    \
        ingot_tiles_begin(height, 6);                                                                                  \
        for (int32_t tile = 0; tile < tiles; tile += 2) {                                                              \
            const int32_t first = tile * height + height < rows ? tile * height : rows - height;                       \
            const int32_t next = first + 2 * height < rows ? first + height : rows - height;                           \
            const int tall = tile + 1 < tiles;                                                                         \
            const char *x = (const char *)a + row * first, *y = (const char *)a + row * next;                          \
            const int32_t *w = b;                                                                                      \
            _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);                                                \
            for (int32_t k = 0; k < words; k += 16, x += 64, y += 64, w += 16 * line) {                                \
                _tile_loadd(4, x, row_bytes);                                                                          \
                _tile_loadd(6, w, line_bytes);                                                                         \
                INGOT_TILES_DOT_##MIX(0, 4, 6);                                                                        \
                if (wide) {                                                                                            \
                    _tile_loadd(7, w + 16, line_bytes);                                                                \
                    INGOT_TILES_DOT_##MIX(1, 4, 7);                                                                    \
                }                                                                                                      \
                if (tall) {                                                                                            \
                    _tile_loadd(5, y, row_bytes);                                                                      \
                    INGOT_TILES_DOT_##MIX(2, 5, 6);                                                                    \
                    if (wide) INGOT_TILES_DOT_##MIX(3, 5, 7);                                                          \
                }                                                                                                      \
            }                                                                                                          \
            _tile_stored(0, sums + apart * first, sum_bytes);                                                          \
            if (wide) _tile_stored(1, sums + apart * first + 16, sum_bytes);                                           \
            if (tall) _tile_stored(2, sums + apart * next, sum_bytes);                                                 \
            if (tall && wide) _tile_stored(3, sums + apart * next + 16, sum_bytes);                                    \
        }                                                                                                              \
    }
#define INGOT_TILES_DOT_s8s8(sums, a, b) _tile_dpbssd(sums, a, b)
#define INGOT_TILES_DOT_s8u8(sums, a, b) _tile_dpbsud(sums, a, b)
#define INGOT_TILES_DOT_u8s8(sums, a, b) _tile_dpbusd(sums, a, b)
#define INGOT_TILES_DOT_u8u8(sums, a, b) _tile_dpbuud(sums, a, b)
#define INGOT_TILES_TRY(MIX)                                                                                           \
    if (ingot_tiles_ready()) {                                                                                         \
        ingot_tiles_unit_##MIX(sums, a, b, rows, columns, words, row, line, apart);                                    \
        return;                                                                                                        \
    }
#else
#define INGOT_BYTE_TILES_UNIT(MIX)
#define INGOT_TILES_TRY(MIX)
#endif
#define INGOT_BYTE_TILES(MIX)                                                                                          \
    INGOT_BYTE_TILES_UNIT(MIX)                                                                                         \
    INGOT_INLINE void ingot_tiles_##MIX(int32_t *sums, const void *a, const int32_t *b, int32_t rows,                  \
        int32_t columns, int32_t words, ptrdiff_t row, ptrdiff_t line, ptrdiff_t apart)                                \
    {                                                                                                                  \
        INGOT_TILES_TRY(MIX)                                                                                           \
        for (int32_t m = 0; m < rows; ++m) {                                                                           \
            for (int32_t n = 0; n < columns; ++n) {                                                                    \
                int32_t sum = 0;                                                                                       \
                for (int32_t k = 0; k < words; ++k)                                                                    \
                    sum = ingot_dot_##MIX(ingot_load_word((const char *)a + row * m + 4 * k), b[line * k + n], sum);   \
                sums[apart * m + n] = sum;                                                                             \
            }                                                                                                          \
        }                                                                                                              \
    }
INGOT_BYTE_TILES(s8s8)
INGOT_BYTE_TILES(s8u8)
INGOT_BYTE_TILES(u8s8)
INGOT_BYTE_TILES(u8u8)

#if defined(__AVX512F__)
#include <immintrin.h>

/* The bits of a where mask has ones, of b elsewhere. */
INGOT_INLINE __m512i ingot_tiles_pick(int32_t mask, __m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi32(_mm512_set1_epi32(mask), a, b, 0xca);
}

INGOT_INLINE void ingot_tiles_slices_512(int8_t *slices, const float *fixed, ptrdiff_t next)
{
    const __m512i half = _mm512_set1_epi8((char)128); /* slices of 0 to 255 become those of -128 to 127 */
    __m512i part[4], outer[2], middle[2]; /* of two parts: their slices 2 and 0, and their slices 1 */
    for (int i = 0; i < 4; ++i)
        part[i] = _mm512_cvtps_epi32(_mm512_loadu_ps(fixed + 16 * i));
    for (int i = 0; i < 2; ++i) {
        outer[i] = ingot_tiles_pick(0x00ff00ff, part[2 * i], _mm512_slli_epi32(part[2 * i + 1], 8));
        middle[i] = ingot_tiles_pick(0x00ff00ff, _mm512_srli_epi32(part[2 * i], 8), part[2 * i + 1]);
    }
    const __m512i first = ingot_tiles_pick(0xffff, _mm512_srli_epi32(outer[0], 16), outer[1]);
    const __m512i second = ingot_tiles_pick(0xffff, middle[0], _mm512_slli_epi32(middle[1], 16));
    const __m512i third = ingot_tiles_pick(0xffff, outer[0], _mm512_slli_epi32(outer[1], 16));
    _mm512_storeu_si512(slices, _mm512_xor_si512(first, half));
    _mm512_storeu_si512(slices + next, _mm512_xor_si512(second, half));
    _mm512_storeu_si512(slices + 2 * next, _mm512_xor_si512(third, half));
}
#endif

INGOT_INLINE void ingot_tiles_slices_plain(int8_t *slices, const float *fixed, ptrdiff_t next)
{
    for (int32_t k = 0; k < INGOT_TILE_TERMS; ++k) {
        const int known = fixed[k] >= 0.0f && fixed[k] <= 2.0f * 0x808080; /* else of a row that is not finite */
        const int32_t even = known ? (int32_t)ingot_roundf(fixed[k]) : 0;
        for (int32_t d = 0; d < INGOT_SLICES; ++d)
            slices[d * next + k % 16 * 4 + k / 16] = (int8_t)((even >> (16 - 8 * d) & 255) - 128);
    }
}

/* Cut 64 floats, 0x808080 more than the number and rounded to integers, into their 3 slices, which are so many bytes
 * apart: those of fixed[16 * i + j] at 4 * j + i. What is not finite has any slices. */
INGOT_INLINE void ingot_tiles_slices(int8_t *slices, const float *fixed, ptrdiff_t next)
{
#if defined(__AVX512F__)
    ingot_tiles_slices_512(slices, fixed, next);
#else
    ingot_tiles_slices_plain(slices, fixed, next);
#endif
}
#endif
