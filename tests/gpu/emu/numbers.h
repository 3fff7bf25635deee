/* Numbers of tensor cores. */
#pragma once
#include <stdint.h>
#include <string.h>
static inline float f16(uint16_t h) { _Float16 x; memcpy(&x, &h, 2); return (float)x; }
static inline uint16_t to_f16(float x) { _Float16 h = (_Float16)x; uint16_t u; memcpy(&u, &h, 2); return u; }
static inline float bf16(uint16_t h) { const uint32_t u = (uint32_t)h << 16; float x; memcpy(&x, &u, 4); return x; }
static inline float tf32(uint32_t u) { u &= 0xffffe000u; float x; memcpy(&x, &u, 4); return x; }
