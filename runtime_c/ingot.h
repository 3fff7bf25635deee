/* ingot.h: what every network cast by Ingot shares - status codes, tensor and model descriptions, compiler macros.
 *
 * C99 and C++. Needs <stddef.h> and <stdint.h> only. Nothing here allocates, prints, aborts or keeps state, so every
 * function may be called from several threads at once. */
#ifndef INGOT_H
#define INGOT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever the meaning of a struct or function in this file changes. */
#define INGOT_ABI 1u

/* ---- status ------------------------------------------------------------------------------------------------ */

typedef enum ingot_status {
    INGOT_OK = 0,
    INGOT_ERR_NULL = -1,        /* a required pointer is NULL */
    INGOT_ERR_ARENA_SIZE = -2,  /* the arena has fewer bytes than the model needs */
    INGOT_ERR_ARENA_ALIGN = -3, /* the arena's address is not a multiple of the required alignment */
    INGOT_ERR_ABI = -4,         /* caller and model were compiled against different versions of ingot.h */
    INGOT_ERR_DIM = -5,         /* a symbolic dimension is out of range, or disagrees with another one */
    INGOT_ERR_WEIGHTS = -6,     /* the weights are missing, too short, misaligned, or of another model */
    INGOT_ERR_INDEX = -7,       /* an index in an input tensor is out of range */
    INGOT_ERR_STATE = -8,       /* the handle was not initialized */
    INGOT_ERR_ARGUMENT = -9,    /* an argument is not what a module's function takes: ingot_error says which and why */
    INGOT_ERR_WORKSPACE = -10,  /* the workspace is missing, too small or misaligned */
    INGOT_ERR_ASSERT = -11,     /* an assertion of the program does not hold */
    INGOT_ERR_DEVICE = -12,     /* a device, or what drives it, refuses: NAME_device_error has its own code */
    INGOT_ERR_TARGET = -13      /* there is no code for this processor */
} ingot_status;

/* How the functions of ingot.c are declared: weak in ingot.c, static where a header holds them: --single-file. */
#if !defined(INGOT_COMMON)
#define INGOT_COMMON
#endif

/* One English sentence without a full stop; a constant string, never NULL, also for values outside the enum. */
INGOT_COMMON const char *ingot_status_str(ingot_status status);

/* ---- tensors and models ------------------------------------------------------------------------------------ */

typedef enum ingot_dtype {
    INGOT_FLOAT32 = 1,
    INGOT_FLOAT64 = 2,
    INGOT_FLOAT16 = 3,
    INGOT_BFLOAT16 = 4,
    INGOT_INT8 = 5,
    INGOT_INT16 = 6,
    INGOT_INT32 = 7,
    INGOT_INT64 = 8,
    INGOT_UINT8 = 9,
    INGOT_UINT16 = 10,
    INGOT_UINT32 = 11,
    INGOT_UINT64 = 12,
    INGOT_BOOL = 13, /* one byte, 0 or 1 */
    INGOT_FLOAT8_E4M3FN = 14, /* floats and integers of 8 bits and fewer: the lowest bits of a byte */
    INGOT_FLOAT8_E5M2 = 15,
    INGOT_FLOAT8_E4M3FNUZ = 16,
    INGOT_FLOAT8_E5M2FNUZ = 17,
    INGOT_FLOAT8_E8M0FNU = 18,
    INGOT_FLOAT4_E2M1FN = 19,
    INGOT_INT4 = 20,
    INGOT_UINT4 = 21,
    INGOT_INT2 = 22,
    INGOT_UINT2 = 23
} ingot_dtype;

/* Bytes of one element; 0 for a value outside the enum. */
INGOT_COMMON size_t ingot_dtype_bytes(ingot_dtype dtype);

/* NumPy's name ("float32"); "?" for a value outside the enum. */
INGOT_COMMON const char *ingot_dtype_str(ingot_dtype dtype);

/* A graph input or output. Tensors are dense and row-major. */
typedef struct ingot_tensor_info {
    const char *name;
    ingot_dtype dtype;
    int32_t ndim;                 /* 0: a scalar, one element */
    const int64_t *dims;          /* [ndim]; -1 where the dimension is symbolic */
    const char *const *dim_names; /* [ndim]; the expression of a symbolic dimension ("batch", "2*n"), else NULL */
} ingot_tensor_info;

/* abi and struct_bytes stay first in every version, so that a mismatch can be seen before anything else is read. */
typedef struct ingot_model_info {
    uint32_t abi;          /* INGOT_ABI of the model */
    uint32_t struct_bytes; /* sizeof(ingot_model_info) of the model */
    const char *name;
    int32_t n_inputs;
    int32_t n_outputs;
    int32_t n_dims;                  /* symbolic dimensions that the caller passes; 0 for a static model */
    const ingot_tensor_info *inputs; /* [n_inputs] */
    const ingot_tensor_info *outputs;
    const char *const *dim_names; /* [n_dims], in the order in which the functions take them */
    uint64_t arena_bytes;         /* 0 when it depends on symbolic dimensions: ask NAME_arena_bytes */
    uint64_t arena_align;         /* a power of two */
    uint64_t weights_bytes;
    uint64_t flops;           /* of one run, an FMA counted as 2; 0 when it depends on symbolic dimensions */
    const char *source_hash;  /* of the imported model, as hexadecimal digits */
    const char *target;       /* what the code was scheduled for: "x86-64-v4", "c" ... */
} ingot_model_info;

/* ---- weights that are read in a run ------------------------------------------------------------------------- */

/* What a network reads its weights by that was cast with --weights stream: begins to read bytes bytes of
 * NAME_weights.bin, from byte offset on, into to, and may return before they are there; with to NULL, waits until all
 * are there that it began to read. Returns 0, or another number where that fails, by which the run ends. */
typedef int (*ingot_reader)(void *user, uint64_t offset, void *to, size_t bytes);

/* ---- profiling --------------------------------------------------------------------------------------------- */

/* A network whose NAME.c is built with -DINGOT_PROFILE calls a hook of the caller's (NAME_set_profile) before each of
 * its kernel calls with the call's number, 0, 1, 2 ..., and once after the last one with their count: from whichever
 * thread makes the call, from the first of a team that makes it together. Otherwise the macros are nothing. */
typedef void (*ingot_profile_hook)(void *user, int32_t call);

#if defined(INGOT_PROFILE)
#define INGOT_MARK(net, call) ((net)->hook != NULL ? (net)->hook((net)->hook_user, (call)) : (void)0)
#define INGOT_MARK_TEAM(worker, net, call) ((worker)->number == 0 ? INGOT_MARK(net, call) : (void)0)
#else
#define INGOT_MARK(net, call) ((void)0)
#define INGOT_MARK_TEAM(worker, net, call) ((void)0)
#endif

/* ---- compiler macros --------------------------------------------------------------------------------------- */

#if defined(__cplusplus) || defined(_MSC_VER)
#define INGOT_RESTRICT __restrict
#else
#define INGOT_RESTRICT restrict
#endif

/* A prefix of a declaration: INGOT_ALIGNED(64) float tile[16]; */
#if defined(__GNUC__)
#define INGOT_ALIGNED(n) __attribute__((aligned(n)))
#elif defined(__TINYC__)
#define INGOT_ALIGNED(n) __attribute((aligned(n))) /* glibc defines away the word with underscores behind it */
#elif defined(_MSC_VER)
#define INGOT_ALIGNED(n) __declspec(align(n))
#elif defined(__CC_ARM) /* Keil's compiler up to version 5 */
#define INGOT_ALIGNED(n) __align(n)
#elif defined(__IAR_SYSTEMS_ICC__)
#define INGOT_ALIGNED(n) INGOT_PRAGMA(data_alignment = n)
#elif defined(__TI_COMPILER_VERSION__)
#define INGOT_ALIGNED(n) __attribute__((aligned(n)))
#elif defined(__cplusplus) && __cplusplus >= 201103L
#define INGOT_ALIGNED(n) alignas(n)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define INGOT_ALIGNED(n) _Alignas(n)
#else
#define INGOT_ALIGNED(n) /* C99 has no word for it: compile as C11, or align by hand what says so */
#endif

/* 1 where the bytes of a number begin with the highest, as far as compilers say. */
#if (defined(__BYTE_ORDER__) && defined(__ORDER_BIG_ENDIAN__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) \
    || defined(__BIG_ENDIAN__) || defined(__ARMEB__) || defined(__AARCH64EB__) || defined(__MIPSEB__) \
    || defined(__s390__) || defined(__sparc__) || defined(__m68k__)
#define INGOT_BIG_ENDIAN 1
#else
#define INGOT_BIG_ENDIAN 0
#endif

/* A row of four words that hold numbers of 64, 32, 16 or 8 bits, the first in the lowest bits: in memory the numbers
 * follow one another on every machine. Weights and data of self-tests are such rows: compilers read words fast. */
#if INGOT_BIG_ENDIAN
#define INGOT_WORD_OF_32(w) ((uint64_t)(w) << 32 | (uint64_t)(w) >> 32)
#define INGOT_WORD_OF_16(w) INGOT_WORD_OF_32( \
    ((uint64_t)(w) & 0x0000ffff0000ffffu) << 16 | ((uint64_t)(w) & 0xffff0000ffff0000u) >> 16)
#define INGOT_WORD_OF_8(w) INGOT_WORD_OF_16( \
    ((uint64_t)(w) & 0x00ff00ff00ff00ffu) << 8 | ((uint64_t)(w) & 0xff00ff00ff00ff00u) >> 8)
#define INGOT_WORDS_32(a, b, c, d) INGOT_WORD_OF_32(a), INGOT_WORD_OF_32(b), INGOT_WORD_OF_32(c), INGOT_WORD_OF_32(d)
#define INGOT_WORDS_16(a, b, c, d) INGOT_WORD_OF_16(a), INGOT_WORD_OF_16(b), INGOT_WORD_OF_16(c), INGOT_WORD_OF_16(d)
#define INGOT_WORDS_8(a, b, c, d) INGOT_WORD_OF_8(a), INGOT_WORD_OF_8(b), INGOT_WORD_OF_8(c), INGOT_WORD_OF_8(d)
#else
#define INGOT_WORDS_32(a, b, c, d) a, b, c, d
#define INGOT_WORDS_16(a, b, c, d) a, b, c, d
#define INGOT_WORDS_8(a, b, c, d) a, b, c, d
#endif
#define INGOT_WORDS_64(a, b, c, d) a, b, c, d

/* Where a linker script shall put weights (INGOT_SECTION_WEIGHTS) and kernels (INGOT_SECTION_CODE): names of sections,
 * in quotes, that a build may define for all files. A prefix of a declaration: INGOT_SECTION(".itcm") */
#if defined(__GNUC__) || defined(__CC_ARM) || defined(__TI_COMPILER_VERSION__)
#define INGOT_SECTION(name) __attribute__((section(name)))
#elif defined(__TINYC__)
#define INGOT_SECTION(name) __attribute((section(name)))
#elif defined(__IAR_SYSTEMS_ICC__)
#define INGOT_SECTION(name) INGOT_PRAGMA(location = name)
#elif defined(INGOT_SECTION_WEIGHTS) || defined(INGOT_SECTION_CODE)
#error "no section can be named for this compiler: leave out INGOT_SECTION_WEIGHTS and INGOT_SECTION_CODE"
#endif
#if defined(INGOT_SECTION_CODE)
#define INGOT_CODE INGOT_SECTION(INGOT_SECTION_CODE)
#else
#define INGOT_CODE
#endif

/* Small functions that must vanish into their callers: without that, no loop over them is vectorized.
 * Kernels of CUDA call them too. */
#if defined(__CUDACC__)
#define INGOT_INLINE static __host__ __device__ __forceinline__
#elif defined(__GNUC__)
#define INGOT_INLINE static inline __attribute__((always_inline, unused))
#elif defined(_MSC_VER) || defined(__CC_ARM)
#define INGOT_INLINE static __forceinline
#elif defined(__IAR_SYSTEMS_ICC__)
#define INGOT_INLINE INGOT_PRAGMA(inline = forced) static inline
#else
#define INGOT_INLINE static inline
#endif

/* _Pragma takes one string literal: two steps, so that macros among the arguments are expanded first. */
#define INGOT_PRAGMA_(text) _Pragma(#text)
#define INGOT_PRAGMA(text) INGOT_PRAGMA_(text)

/* INGOT_UNROLL(n) stands right before a for loop: unroll it n times (n an integer literal or a macro that is one;
 * n = trip count unrolls fully). With INGOT_ROLLED defined it does nothing: a debug or sanitized build compiles
 * faster. */
#if defined(INGOT_ROLLED)
#define INGOT_UNROLL(n)
#elif defined(__clang__)
#define INGOT_UNROLL(n) INGOT_PRAGMA(clang loop unroll_count(n))
#elif defined(__GNUC__)
#define INGOT_UNROLL(n) INGOT_PRAGMA(GCC unroll n)
#elif defined(__IAR_SYSTEMS_ICC__)
#define INGOT_UNROLL(n) INGOT_PRAGMA(unroll = n)
#elif defined(__CC_ARM)
#define INGOT_UNROLL(n) INGOT_PRAGMA(unroll(n))
#elif defined(__TI_COMPILER_VERSION__)
#define INGOT_UNROLL(n) INGOT_PRAGMA(UNROLL(n))
#else
#define INGOT_UNROLL(n)
#endif

/* INGOT_PREFETCH(p): bring the cache line at p into L2, or do nothing; p may be any address.
 * INGOT_PREFETCH_AHEAD(p, n): bring that n bytes behind p into L1, from a page on into L2; there
 * need be none. */
#if defined(__GNUC__)
#define INGOT_PREFETCH(p) __builtin_prefetch((p), 0, 2)
#define INGOT_PREFETCH_AHEAD(p, n) __builtin_prefetch((const void *)((uintptr_t)(p) + (n)), 0, (n) < 4096 ? 3 : 2)
#else
#define INGOT_PREFETCH(p) ((void)(p))
#define INGOT_PREFETCH_AHEAD(p, n) ((void)(p))
#endif

/* INGOT_OMP(parallel for collapse(2)) is that OpenMP pragma, or nothing in a build without OpenMP.
 * INGOT_PARALLEL_FOR stands right before a for loop whose iterations are independent and about equally long; gcc allows
 * no INGOT_UNROLL on the same loop. */
#if defined(_OPENMP)
#define INGOT_OMP(text) INGOT_PRAGMA(omp text)
#else
#define INGOT_OMP(text)
#endif
#define INGOT_PARALLEL_FOR INGOT_OMP(parallel for schedule(static))

/* ---- checks of an instance: each library has its own ----------------------------------------------------------- */

/* INGOT_OK when a caller built with (abi, struct_bytes) may use this version; else INGOT_ERR_ABI. */
INGOT_INLINE ingot_status ingot_check_abi(uint32_t abi, size_t struct_bytes)
{
    return abi == INGOT_ABI && struct_bytes == sizeof(ingot_model_info) ? INGOT_OK : INGOT_ERR_ABI;
}

/* Checks an arena of have bytes against need bytes at a multiple of align (a power of two): INGOT_OK,
 * INGOT_ERR_NULL, INGOT_ERR_ARENA_SIZE or INGOT_ERR_ARENA_ALIGN, in that order. */
INGOT_INLINE ingot_status ingot_check_arena(const void *arena, size_t have, uint64_t need, uint64_t align)
{
    if (!arena) return INGOT_ERR_NULL;
    if (have < need) return INGOT_ERR_ARENA_SIZE;
    if ((uintptr_t)arena & (align - 1u)) return INGOT_ERR_ARENA_ALIGN;
    return INGOT_OK;
}

#ifdef __cplusplus
}
#endif

#endif /* INGOT_H */
