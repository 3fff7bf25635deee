/* Prints what the functions of ingot.h and the integer functions of ingot_math.h give, for test_runtime.py. */
#include <stdio.h>
#include "ingot.h"
#include "ingot_math.h"

#define DIVISIONS(T, name, lowest)                                                                                     \
    static void print_##name(void)                                                                                     \
    {                                                                                                                  \
        const T values[] = {lowest, lowest + 1, -7, -3, -2, -1, 0, 1, 2, 3, 7, -(lowest + 1)};                         \
        const int n = (int)(sizeof values / sizeof *values);                                                           \
        for (int i = 0; i < n; ++i)                                                                                    \
            for (int j = 0; j < n; ++j) {                                                                              \
                const T a = values[i], b = values[j];                                                                  \
                printf("minmax %lld %lld %lld %lld\n", (long long)a, (long long)b, (long long)ingot_min_##name(a, b),  \
                       (long long)ingot_max_##name(a, b));                                                             \
                if (b != 0 && !(a == lowest && b == -1))                                                               \
                    printf("divmod %lld %lld %lld %lld\n", (long long)a, (long long)b,                                 \
                           (long long)ingot_floordiv_##name(a, b), (long long)ingot_floormod_##name(a, b));            \
            }                                                                                                          \
    }
DIVISIONS(int32_t, i32, INT32_MIN)
DIVISIONS(int64_t, i64, INT64_MIN)

int main(void)
{
    INGOT_ALIGNED(64) static char arena[128];
    for (int code = 1; code >= -13; --code) printf("status %d %s\n", code, ingot_status_str((ingot_status)code));
    for (int code = -1; code <= 24; ++code)
        printf("dtype %d %s %d\n", code, ingot_dtype_str((ingot_dtype)code), (int)ingot_dtype_bytes((ingot_dtype)code));
    printf("arena ok %d\n", ingot_check_arena(arena, 128, 128, 64));
    printf("arena null %d\n", ingot_check_arena(NULL, 128, 128, 64));
    printf("arena short %d\n", ingot_check_arena(arena, 127, 128, 64));
    printf("arena askew %d\n", ingot_check_arena(arena + 4, 124, 100, 64));
    printf("abi same %d\n", ingot_check_abi(INGOT_ABI, sizeof(ingot_model_info)));
    printf("abi other %d\n", ingot_check_abi(INGOT_ABI + 1u, sizeof(ingot_model_info)));
    printf("abi size %d\n", ingot_check_abi(INGOT_ABI, sizeof(ingot_model_info) - 8u));
    print_i32();
    print_i64();
    return 0;
}
