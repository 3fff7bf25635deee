/* net.h: the network under test by one set of names, whatever its own are.
 *
 * The build defines HEADER (its header), NET (its C prefix), ARENA_BYTES, ARENA_ALIGN, WEIGHTS_BYTES, INPUT_SIZE and
 * OUTPUT_SIZE; and WEIGHTS_ARE_A_FILE where the program hands the weights over. float32 in, float32 out. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200112L
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include HEADER

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
typedef NET net_type;
#define net_init JOIN(NET, _init)
#define net_init_ JOIN(NET, _init_)
#define net_info JOIN(NET, _info)
#define net_run JOIN(NET, _run)
#define net_set_weights JOIN(NET, _set_weights)

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

/* Memory that ends where the allocation ends, so that a sanitizer sees what is touched behind it. skew: how far the
 * address is off a multiple of align. */
static inline void *allocate(size_t bytes, size_t align, size_t skew)
{
    static void *kept[64]; /* programs here free nothing, and leak nothing either */
    static size_t count;
    CHECK(count < sizeof kept / sizeof *kept && posix_memalign(&kept[count], align, bytes + skew) == 0);
    return (unsigned char *)kept[count++] + skew;
}

static inline float *made_up_input(unsigned seed, size_t skew)
{
    float *x = allocate((size_t)INPUT_SIZE * sizeof(float), 64, skew);
    for (size_t i = 0; i < (size_t)INPUT_SIZE; ++i) x[i] = (float)((i * 7u + seed * 13u) % 101u) / 101.0f;
    return x;
}

/* A new instance in an arena of its own. */
static inline net_type *new_instance(void)
{
    net_type *net = NULL;
    CHECK(net_init(&net, allocate(ARENA_BYTES, ARENA_ALIGN, 0), ARENA_BYTES) == INGOT_OK);
#if defined(WEIGHTS_ARE_A_FILE)
    {
        void *weights = allocate(WEIGHTS_BYTES, 64, 0);
        FILE *file = fopen(WEIGHTS_ARE_A_FILE, "rb");
        CHECK(file != NULL && fread(weights, 1, WEIGHTS_BYTES, file) == WEIGHTS_BYTES);
        fclose(file);
        CHECK(net_set_weights(net, weights, WEIGHTS_BYTES) == INGOT_OK);
    }
#endif
    return net;
}
