/* Qualifiers, built-in variables and barriers of CUDA C++, and what the emulator offers to them. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "../vector_types.h"
#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __maxnreg__(n)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#ifndef __restrict__
#define __restrict__ __restrict
#endif
/* translate.py gives the variables of a kernel a section of their own, and dynamic shared memory its address. */
#define __shared__ static __attribute__((section("emu_shared")))

/* Where accesses are seen, functions of these headers are calls, whose return address is the kernel's line. */
#ifdef __SANITIZE_THREAD__
#define EMU_FUNCTION __attribute__((noinline, no_sanitize("thread"))) inline
#define EMU_SEE(at, bytes, access) emu::touch(at, bytes, access, __builtin_return_address(0))
#else
#define EMU_FUNCTION inline
#define EMU_SEE(at, bytes, access) ((void)0)
#endif

namespace emu {
extern uint3 thread_idx, block_idx;
extern dim3 block_dim, grid_dim;
extern unsigned lane;
extern unsigned char *dynamic_shared;
enum Access { READ, WRITE, ATOMIC, VOLATILE_READ, VOLATILE_WRITE };
void touch(const void *at, size_t bytes, Access access, const void *pc);
bool shared_array(const char *name, const void *at, size_t bytes);
extern int dropped, barrier_site, barrier_line;     /* the number of a barrier that is left out; of the one that comes */
void sync_block();                                  /* __syncthreads */
int sync_block_count(int predicate);                /* how many threads gave a nonzero one */
void sync_named(int barrier, int threads);          /* bar.sync */
void arrive_named(int barrier, int threads);        /* bar.arrive */
enum Meeting_kind { SYNC, SHUFFLE, VOTE, MATRIX };
/* What the lanes of the mask gave, `stride` bytes from one to the next, and in `here` who did. */
const unsigned char *exchange(unsigned mask, const void *mine, size_t bytes, Meeting_kind kind, unsigned *here);
enum { SLOT = 64 };
/* A product of a warpgroup: d (64 x columns) of tiles a (or of words of it) and b. */
struct Wgmma { int columns; enum Operand { F16, BF16, TF32, S8 } operand; bool registers; };
void wgmma(const Wgmma &shape, void *d, uint64_t a, const void *words, uint64_t b, int add, const void *pc);
unsigned active_mask();
void pause();                                       /* let others run: in loops that wait for memory */
[[noreturn]] void trap(const char *what);
long long clock_now();

template <class T> struct Params;
/* A kernel as the runtime knows it: made by the last lines that translate.py writes. */
struct Kernel {
    const void *at;
    const char *name;
    unsigned char *shared, *shared_end, *common, *common_end;  /* static shared memory: its own, and of functions */
    int max_threads;                                           /* of its launch bounds; 0: none */
    const char *architectures;
    unsigned params;
    const unsigned *sizes;
    void (*call)(const void *at, void *const *args);
    Kernel *next;
    int dynamic_bytes;                                         /* what cudaFuncSetAttribute allowed */
    bool alone;                                                /* its threads do not wait for each other */
    bool seen;                                                 /* its accesses are */
    /* Tells name, address and bytes of its arrays in global memory; how many pointers it has. */
    void (*extents)(void *const *args, void (*tell)(const char *, const void *, size_t));
    unsigned pointers;
};
void add(Kernel *kernel);
template <unsigned... I> struct Numbers {};
template <unsigned n, unsigned... I> struct Count : Count<n - 1, n - 1, I...> {};
template <unsigned... I> struct Count<0, I...> { typedef Numbers<I...> type; };
template <class... P> struct Params<void (*)(P...)> {
    static constexpr unsigned count = sizeof...(P);
    static constexpr unsigned sizes[sizeof...(P) + 1] = {sizeof(P)..., 0};
    template <unsigned... I> __attribute__((no_sanitize("thread")))
    static void spread(void (*kernel)(P...), void *const *args, Numbers<I...>)
    {
        (void)args;
        kernel(*(typename Plain<P>::type *)args[I]...);
    }
    __attribute__((no_sanitize("thread"))) static void call(const void *at, void *const *args)
    {
        spread((void (*)(P...))at, args, typename Count<sizeof...(P)>::type());
    }
    template <class T> struct Plain { typedef T type; };
    template <class T> struct Plain<const T> { typedef T type; };
};
struct Adder { explicit Adder(Kernel *kernel) { add(kernel); } };
}
#ifdef __SANITIZE_THREAD__
#define EMU_SEEN true
/* Static shared memory with a guard behind each array. */
#define EMU_SHARED(section_name, declaration, name) \
    static __attribute__((section(section_name))) struct __attribute__((aligned(128))) { declaration; unsigned char guard[64]; } emu_of_##name; \
    auto &name = emu_of_##name.name; \
    emu::shared_array(#name, &name, sizeof name)
#else
#define EMU_SEEN false
#define EMU_SHARED(section_name, declaration, name) static __attribute__((section(section_name))) declaration
#endif
#define EMU_ARGUMENT(...) __VA_ARGS__
/* A barrier of the text, which has a number. */
#define EMU_BARRIER(number, call) do if (emu::dropped != number) { emu::barrier_site = number, emu::barrier_line = __LINE__; call; } while (0)
#define EMU_KERNEL(symbol, function, bounds, archs, alone, extents, pointers) \
    extern unsigned char __start_emu_shared_##symbol[] __attribute__((weak, visibility("hidden"))); \
    extern unsigned char __stop_emu_shared_##symbol[] __attribute__((weak, visibility("hidden"))); \
    static emu::Kernel emu_kernel_##symbol = {(const void *)&function, #function, __start_emu_shared_##symbol, \
        __stop_emu_shared_##symbol, __start_emu_shared, __stop_emu_shared, bounds, archs, \
        emu::Params<decltype(&function)>::count, emu::Params<decltype(&function)>::sizes, \
        emu::Params<decltype(&function)>::call, nullptr, 48 << 10, alone, EMU_SEEN, extents, pointers}; \
    static emu::Adder emu_adder_##symbol(&emu_kernel_##symbol);
extern unsigned char __start_emu_shared[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_emu_shared[] __attribute__((weak, visibility("hidden")));

#define threadIdx emu::thread_idx
#define blockIdx emu::block_idx
#define blockDim emu::block_dim
#define gridDim emu::grid_dim
#define warpSize 32
#define __syncthreads() emu::sync_block()
#define __syncthreads_count(p) emu::sync_block_count(p)
inline int emu_or(int p) { return emu::sync_block_count(p) != 0; }
inline int emu_and(int p) { return emu::sync_block_count(!p) == 0; }
#define __syncthreads_or(p) emu_or(p)
#define __syncthreads_and(p) emu_and(p)
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)
#define __threadfence_system() ((void)0)
#define __nanosleep(n) emu::pause()
#define __trap() emu::trap("__trap()")
#define __brkpt() emu::trap("__brkpt()")
#define __builtin_assume(x) ((void)0)
#define clock64() emu::clock_now()
#define clock() ((int)emu::clock_now())
inline size_t __cvta_generic_to_shared(const void *p) { return (size_t)((const unsigned char *)p - emu::dynamic_shared); }
