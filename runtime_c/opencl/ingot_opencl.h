/* What kernels in OpenCL C use of the runtime: the types and macros of C with which its headers are written.
 *
 * Devices without doubles compute in floats what helpers would do in doubles; kernels that need doubles say so. */
#if !defined(cl_khr_fp64)
#define double float
#endif

typedef char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;

#define INT32_MIN INT_MIN
#define INT64_MIN LONG_MIN
#define INT64_C(n) n##L
#define UINT64_C(n) n##UL
#define INGOT_INLINE static inline __attribute__((always_inline))

/* The bits of a number as another type: what the runtime copies bytes for. */
#define memcpy(to, from, n) ingot_copy_bits(to, from)
#define INGOT_COPY_BITS(T, U, bits) \
    INGOT_INLINE __attribute__((overloadable)) void ingot_copy_bits(T *to, const U *from) { *to = bits(*from); }
INGOT_COPY_BITS(uint, float, as_uint)
INGOT_COPY_BITS(float, uint, as_float)
#if defined(cl_khr_fp64)
INGOT_COPY_BITS(ulong, double, as_ulong)
INGOT_COPY_BITS(double, ulong, as_double)
#else
INGOT_COPY_BITS(ulong, float, as_uint)
INGOT_COPY_BITS(float, ulong, (float))
#endif
#define half ingot_half /* a name of C, a type of OpenCL */
#define sqrtf sqrt
#define fmaf fma

/* Which instructions a CPU that runs this has is not OpenCL's business: fma() and rint() are. */
#undef __FMA__
#undef __ARM_FEATURE_FMA
#undef __SSE4_1__
#undef __aarch64__
#undef __BYTE_ORDER__
#undef __GNUC__
#if !defined(FP_FAST_FMAF)
#define FP_FAST_FMAF 1
#endif
