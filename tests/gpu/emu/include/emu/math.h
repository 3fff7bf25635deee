/* CUDA's mathematical functions that the C library lacks. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "device.h"
#define EMU_OF(T) \
    inline T min(T a, T b) { return b < a ? b : a; } \
    inline T max(T a, T b) { return a < b ? b : a; }
EMU_OF(int)
EMU_OF(unsigned)
EMU_OF(long)
EMU_OF(unsigned long)
EMU_OF(long long)
EMU_OF(unsigned long long)
#undef EMU_OF
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
#define EMU_PI 3.14159265358979323846
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f; }
inline float sinpif(float x) { return (float)sin(EMU_PI * (double)x); }
inline float cospif(float x) { return (float)cos(EMU_PI * (double)x); }
inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }
#define EMU_ROUNDED(op, symbol) \
    inline float __f##op##_rn(float a, float b) { return a symbol b; } \
    inline double __d##op##_rn(double a, double b) { return a symbol b; }
EMU_ROUNDED(add, +)
EMU_ROUNDED(sub, -)
EMU_ROUNDED(mul, *)
EMU_ROUNDED(div, /)
#undef EMU_ROUNDED
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }
template <class To, class From> inline To emu_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
inline int __float_as_int(float x) { return emu_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return emu_bits<unsigned>(x); }
inline float __int_as_float(int x) { return emu_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return emu_bits<float>(x); }
inline long long __double_as_longlong(double x) { return emu_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return emu_bits<double>(x); }
/* Conversions of CUDA saturate, and of NaN give 0 (int) or the least (long long). */
template <class T> inline T emu_to_integer(double x, double least, double most)
{
    return x != x ? sizeof(T) == 8 ? (T)least : (T)0 : x <= least ? (T)least : x >= most ? (T)(sizeof(T) == 8 ?
        (least < 0 ? (unsigned long long)-1 >> 1 : (unsigned long long)-1) : (unsigned long long)(most - 1)) : (T)x;
}
#define EMU_TO(name, T, least, most) \
    inline T name##_rn(double x) { return emu_to_integer<T>(nearbyint(x), least, most); } \
    inline T name##_rz(double x) { return emu_to_integer<T>(trunc(x), least, most); } \
    inline T name##_rd(double x) { return emu_to_integer<T>(floor(x), least, most); } \
    inline T name##_ru(double x) { return emu_to_integer<T>(ceil(x), least, most); }
EMU_TO(__float2int, int, -2147483648.0, 2147483648.0)
EMU_TO(__double2int, int, -2147483648.0, 2147483648.0)
EMU_TO(__float2uint, unsigned, 0.0, 4294967296.0)
EMU_TO(__double2uint, unsigned, 0.0, 4294967296.0)
EMU_TO(__float2ll, long long, -9223372036854775808.0, 9223372036854775808.0)
EMU_TO(__double2ll, long long, -9223372036854775808.0, 9223372036854775808.0)
#undef EMU_TO
inline float __int2float_rn(int x) { return (float)x; }
inline float __uint2float_rn(unsigned x) { return (float)x; }
inline float __ll2float_rn(long long x) { return (float)x; }
inline float __double2float_rn(double x) { return (float)x; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x)
{
    unsigned out = 0;
    for (int i = 0; i < 32; ++i) out |= (x >> i & 1) << (31 - i);
    return out;
}
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s)
{
    const unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned out = 0;
    for (int i = 0; i < 4; ++i) out |= (unsigned)(both >> 8 * (s >> 4 * i & 7) & 0xff) << 8 * i;
    return out;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s)
{
    return (unsigned)(((unsigned long long)hi << 32 | lo) << (s & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s)
{
    return (unsigned)(((unsigned long long)hi << 32 | lo) >> (s & 31));
}
inline int __dp4a(int a, int b, int c)
{
    for (int i = 0; i < 4; ++i) c += (int)(int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i);
    return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
    for (int i = 0; i < 4; ++i) c += (a >> 8 * i & 0xff) * (b >> 8 * i & 0xff);
    return c;
}
template <class T> inline T __ldg(const T *p) { return *p; }
template <class T> inline T __ldcg(const T *p) { return *p; }
template <class T> inline T __ldca(const T *p) { return *p; }
template <class T> inline T __ldcs(const T *p) { return *p; }
template <class T> inline void __stcg(T *p, T v) { *p = v; }
template <class T> inline void __stcs(T *p, T v) { *p = v; }
template <class T> inline void __stwt(T *p, T v) { *p = v; }
