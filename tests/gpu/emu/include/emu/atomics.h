/* Atomic functions. One thread runs at a time, so each is a plain read and write, seen as atomic. */
#pragma once
#include "device.h"
template <class T> struct Emu_same { typedef T type; };
#define EMU_ATOMIC(name, expression) \
    template <class T> EMU_FUNCTION T name(T *at, typename Emu_same<T>::type value) \
    { \
        EMU_SEE(at, sizeof *at, emu::ATOMIC); \
        const T old = *at; \
        *at = (T)(expression); \
        return old; \
    } \
    template <class T> inline T name##_block(T *at, typename Emu_same<T>::type value) { return name(at, value); }
EMU_ATOMIC(atomicAdd, old + value)
EMU_ATOMIC(atomicSub, old - value)
EMU_ATOMIC(atomicExch, value)
EMU_ATOMIC(atomicMin, value < old ? value : old)
EMU_ATOMIC(atomicMax, old < value ? value : old)
EMU_ATOMIC(atomicAnd, old & value)
EMU_ATOMIC(atomicOr, old | value)
EMU_ATOMIC(atomicXor, old ^ value)
EMU_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
EMU_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef EMU_ATOMIC
template <class T>
EMU_FUNCTION T atomicCAS(T *at, typename Emu_same<T>::type compare, typename Emu_same<T>::type value)
{
    EMU_SEE(at, sizeof *at, emu::ATOMIC);
    const T old = *at;
    if (old == compare) *at = value;
    else emu::pause();      /* a loop that waits for another thread's value lets it run */
    return old;
}
