/* emulated_tiles.h: Intel's unit for tiles of integers (AMX) in plain C, for machines without one.
 *
 * A compiler includes it before a source (-include). The functions of <immintrin.h> whose names begin with _tile_ are then
 * those below, and ingot_tiles.h asks no system for the unit. What the unit refuses, by the manual's conditions for #UD and
 * #GP, ends the program with a message: shapes that do not meet, a tile that has none, tiles used twice, palettes. Each
 * thread has tiles of its own, which all sources of a program share. */
#ifndef INGOT_EMULATED_TILES_H
#define INGOT_EMULATED_TILES_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The definition `ingot_tiles_ready(void)` is of another function, a call `ingot_tiles_ready()` is 1. */
#define ingot_tiles_ready(none) EMULATED_READY_##none
#define EMULATED_READY_void emulated_tiles_unasked(void)
#define EMULATED_READY_ 1

#define EMULATED_TILES 8
#define EMULATED_ROWS 16
#define EMULATED_BYTES 64 /* of a row */

typedef struct {
    uint8_t palette, start, none[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} emulated_shape; /* as memory has it */

typedef struct {
    emulated_shape shape;
    uint8_t data[EMULATED_TILES][EMULATED_ROWS][EMULATED_BYTES];
    int64_t products; /* of tiles, that were made */
} emulated_unit;

extern __thread emulated_unit emulated_tiles;
__attribute__((weak)) __thread emulated_unit emulated_tiles;

static inline void emulated_refuse(const char *what)
{
    fprintf(stderr, "the unit for tiles refuses %s\n", what);
    abort();
}

/* The unit, whose tile n has a shape. */
static inline emulated_unit *emulated_with(int n)
{
    emulated_unit *const unit = &emulated_tiles;
    if (n < 0 || n >= EMULATED_TILES) emulated_refuse("the number of a tile");
    if (unit->shape.palette != 1 || unit->shape.rows[n] == 0) emulated_refuse("a tile without a shape");
    return unit;
}

static inline void emulated_loadconfig(const void *from)
{
    emulated_unit *const unit = &emulated_tiles;
    emulated_shape shape;
    memcpy(&shape, from, sizeof shape);
    if (shape.palette > 1) emulated_refuse("a palette");
    if (shape.palette == 0) memset(&shape, 0, sizeof shape);
    for (int i = 0; i < 14; ++i)
        if (shape.none[i] != 0) emulated_refuse("a reserved byte that is not 0");
    for (int i = 0; i < 16; ++i) {
        if (i >= EMULATED_TILES && (shape.bytes[i] != 0 || shape.rows[i] != 0)) emulated_refuse("a ninth tile's shape");
        if (shape.bytes[i] > EMULATED_BYTES || shape.rows[i] > EMULATED_ROWS) emulated_refuse("a shape that is too large");
        if ((shape.bytes[i] == 0) != (shape.rows[i] == 0)) emulated_refuse("a shape of rows or of bytes alone");
    }
    unit->shape = shape;
    memset(unit->data, 0, sizeof unit->data);
}

static inline void emulated_storeconfig(void *to) { memcpy(to, &emulated_tiles.shape, sizeof(emulated_shape)); }

static inline void emulated_release(void)
{
    memset(&emulated_tiles.shape, 0, sizeof emulated_tiles.shape);
    memset(emulated_tiles.data, 0, sizeof emulated_tiles.data);
}

static inline void emulated_zero(int n) { memset(emulated_with(n)->data[n], 0, sizeof emulated_tiles.data[n]); }

/* Rows, and bytes of a row, beyond the shape are 0. */
static inline void emulated_load(int n, const void *from, ptrdiff_t stride)
{
    emulated_unit *const unit = emulated_with(n);
    emulated_zero(n);
    for (int row = 0; row < unit->shape.rows[n]; ++row)
        memcpy(unit->data[n][row], (const char *)from + stride * row, unit->shape.bytes[n]);
}

static inline void emulated_store(int n, void *to, ptrdiff_t stride)
{
    const emulated_unit *const unit = emulated_with(n);
    for (int row = 0; row < unit->shape.rows[n]; ++row)
        memcpy((char *)to + stride * row, unit->data[n][row], unit->shape.bytes[n]);
}

/* A byte as a number, with its sign or without one. */
static inline int32_t emulated_number(uint8_t byte, int has_sign) { return has_sign ? (int8_t)byte : byte; }

/* sums += a b, of words of four bytes of a's rows and of b's columns, modulo 2^32. */
static inline void emulated_dot(int sums, int a, int b, int sign_a, int sign_b)
{
    emulated_unit *const unit = emulated_with(sums);
    const emulated_shape *const shape = &emulated_with(a)->shape;
    emulated_with(b);
    if (sums == a || sums == b || a == b) emulated_refuse("a tile that is two operands");
    if (shape->bytes[sums] % 4 != 0 || shape->bytes[a] % 4 != 0 || shape->bytes[b] % 4 != 0)
        emulated_refuse("rows of parts of words");
    if (shape->rows[sums] != shape->rows[a] || shape->bytes[a] / 4 != shape->rows[b] || shape->bytes[sums] != shape->bytes[b])
        emulated_refuse("shapes that do not meet");
    ++unit->products;
    for (int m = 0; m < shape->rows[sums]; ++m) {
        for (int n = 0; n < shape->bytes[sums] / 4; ++n) {
            uint32_t sum;
            memcpy(&sum, &unit->data[sums][m][4 * n], 4);
            for (int k = 0; k < shape->bytes[a]; ++k)
                sum += (uint32_t)(emulated_number(unit->data[a][m][k], sign_a)
                                  * emulated_number(unit->data[b][k / 4][4 * n + k % 4], sign_b));
            memcpy(&unit->data[sums][m][4 * n], &sum, 4);
        }
    }
}

#undef _tile_loadconfig
#undef _tile_storeconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbssd
#undef _tile_dpbsud
#undef _tile_dpbusd
#undef _tile_dpbuud
#define _tile_loadconfig(from) emulated_loadconfig(from)
#define _tile_storeconfig(to) emulated_storeconfig(to)
#define _tile_release() emulated_release()
#define _tile_zero(n) emulated_zero(n)
#define _tile_loadd(n, from, stride) emulated_load(n, from, stride)
#define _tile_stream_loadd(n, from, stride) emulated_load(n, from, stride)
#define _tile_stored(n, to, stride) emulated_store(n, to, stride)
#define _tile_dpbssd(sums, a, b) emulated_dot(sums, a, b, 1, 1)
#define _tile_dpbsud(sums, a, b) emulated_dot(sums, a, b, 1, 0)
#define _tile_dpbusd(sums, a, b) emulated_dot(sums, a, b, 0, 1)
#define _tile_dpbuud(sums, a, b) emulated_dot(sums, a, b, 0, 0)
#endif
