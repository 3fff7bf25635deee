/* Shuffles, votes and __syncwarp: lanes of the mask meet, each gives what it has and takes what it wants. A lane that takes
 * from one that is not there gets the pattern of NaN. */
#pragma once
#include <string.h>
#include "device.h"
#define EMU_ALL 0xffffffffu

template <class T> EMU_FUNCTION T emu_take(unsigned mask, T value, unsigned from, bool inside)
{
    static_assert(sizeof(T) <= emu::SLOT, "");
    unsigned here;
    const unsigned char *all = emu::exchange(mask, &value, sizeof value, emu::SHUFFLE, &here);
    if (!inside) return value;
    T out;
    if (from < 32 && here >> from & 1) memcpy(&out, all + emu::SLOT * from, sizeof out);
    else memset(&out, 0xff, sizeof out);
    return out;
}
template <class T> inline T __shfl_sync(unsigned m, T v, int from, int width = 32)
{
    return emu_take(m, v, (emu::lane & ~(unsigned)(width - 1)) | ((unsigned)from & (unsigned)(width - 1)), true);
}
template <class T> inline T __shfl_up_sync(unsigned m, T v, unsigned d, int width = 32)
{
    return emu_take(m, v, emu::lane - d, emu::lane % (unsigned)width >= d);
}
template <class T> inline T __shfl_down_sync(unsigned m, T v, unsigned d, int width = 32)
{
    return emu_take(m, v, emu::lane + d, emu::lane % (unsigned)width + d < (unsigned)width);
}
template <class T> inline T __shfl_xor_sync(unsigned m, T v, int x, int width = 32)
{
    const unsigned from = emu::lane ^ (unsigned)x, w = (unsigned)width;
    return emu_take(m, v, from, from / w <= emu::lane / w);
}
EMU_FUNCTION void __syncwarp(unsigned mask = EMU_ALL) { emu::exchange(mask, "", 1, emu::SYNC, nullptr); }
EMU_FUNCTION unsigned __ballot_sync(unsigned mask, int predicate)
{
    unsigned here, out = 0;
    const unsigned char *all = emu::exchange(mask, &predicate, sizeof predicate, emu::VOTE, &here);
    for (int i = 0; i < 32; ++i)
        if (here >> i & 1) {
            int p;
            memcpy(&p, all + emu::SLOT * i, sizeof p);
            if (p) out |= 1u << i;
        }
    return out;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
inline unsigned __activemask() { return emu::active_mask(); }
template <class T> EMU_FUNCTION unsigned __match_any_sync(unsigned mask, T value)
{
    unsigned here, out = 0;
    const unsigned char *all = emu::exchange(mask, &value, sizeof value, emu::VOTE, &here);
    for (int i = 0; i < 32; ++i)
        if (here >> i & 1 && !memcmp(all + emu::SLOT * i, &value, sizeof value)) out |= 1u << i;
    return out;
}
template <class T, class F> EMU_FUNCTION T emu_reduce(unsigned mask, T value, F combine)
{
    unsigned here;
    bool first = true;
    T out = value;
    const unsigned char *all = emu::exchange(mask, &value, sizeof value, emu::VOTE, &here);
    for (int i = 0; i < 32; ++i)
        if (here >> i & 1) {
            T v;
            memcpy(&v, all + emu::SLOT * i, sizeof v);
            out = first ? v : combine(out, v);
            first = false;
        }
    return out;
}
#define EMU_REDUCE(name, T, expression) \
    inline T __reduce_##name##_sync(unsigned m, T v) { return emu_reduce(m, v, [](T a, T b) { return (T)(expression); }); }
EMU_REDUCE(add, unsigned, a + b)
EMU_REDUCE(min, unsigned, a < b ? a : b)
EMU_REDUCE(max, unsigned, a > b ? a : b)
EMU_REDUCE(add, int, (int)((unsigned)a + (unsigned)b))
EMU_REDUCE(min, int, a < b ? a : b)
EMU_REDUCE(max, int, a > b ? a : b)
EMU_REDUCE(and, unsigned, a & b)
EMU_REDUCE(or, unsigned, a | b)
EMU_REDUCE(xor, unsigned, a ^ b)
#undef EMU_REDUCE
