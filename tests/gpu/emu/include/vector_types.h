/* CUDA's built-in vector types and dim3, for C and C++. */
#pragma once
#if defined(__GNUC__)
#define EMU_ALIGNED(n) __attribute__((aligned(n)))
#endif
#define EMU_VECTORS(T, name, size) \
    typedef struct name##1 { T x; } name##1; \
    typedef struct EMU_ALIGNED(2 * size) name##2 { T x, y; } name##2; \
    typedef struct name##3 { T x, y, z; } name##3; \
    typedef struct EMU_ALIGNED(4 * size > 16 ? 16 : 4 * size) name##4 { T x, y, z, w; } name##4;
EMU_VECTORS(signed char, char, 1)
EMU_VECTORS(unsigned char, uchar, 1)
EMU_VECTORS(short, short, 2)
EMU_VECTORS(unsigned short, ushort, 2)
EMU_VECTORS(int, int, 4)
EMU_VECTORS(unsigned int, uint, 4)
EMU_VECTORS(float, float, 4)
EMU_VECTORS(double, double, 8)
EMU_VECTORS(long long, longlong, 8)
EMU_VECTORS(unsigned long long, ulonglong, 8)
#undef EMU_VECTORS
typedef struct dim3 {
    unsigned int x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
#endif
} dim3;
#ifdef __cplusplus
#define EMU_MAKE(T, name) \
    inline name##1 make_##name##1(T x) { return {x}; } \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMU_MAKE(signed char, char)
EMU_MAKE(unsigned char, uchar)
EMU_MAKE(short, short)
EMU_MAKE(unsigned short, ushort)
EMU_MAKE(int, int)
EMU_MAKE(unsigned int, uint)
EMU_MAKE(float, float)
EMU_MAKE(double, double)
EMU_MAKE(long long, longlong)
EMU_MAKE(unsigned long long, ulonglong)
#undef EMU_MAKE
#endif
