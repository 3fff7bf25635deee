/* status_codes.c: every mistake of a caller that C can notice gets its own status, and harms nothing. */
#include "net.h"

static void check_init(unsigned char *arena)
{
    net_type *net = (net_type *)(void *)arena;
    const size_t info = sizeof(ingot_model_info);
    CHECK(net_init(NULL, arena, ARENA_BYTES) == INGOT_ERR_NULL);
    CHECK(net_init(&net, NULL, ARENA_BYTES) == INGOT_ERR_NULL && net == NULL);
    net = (net_type *)(void *)arena;
    CHECK(net_init(&net, arena, ARENA_BYTES - 1u) == INGOT_ERR_ARENA_SIZE && net == NULL);
    CHECK(net_init(&net, arena, 0) == INGOT_ERR_ARENA_SIZE);
    for (size_t off = 1; off < ARENA_ALIGN; off *= 2)
        CHECK(net_init(&net, arena + off, ARENA_BYTES) == INGOT_ERR_ARENA_ALIGN && net == NULL);
    CHECK(net_init_(&net, arena, ARENA_BYTES, INGOT_ABI + 1u, info) == INGOT_ERR_ABI);
    CHECK(net_init_(&net, arena, ARENA_BYTES, INGOT_ABI, info - 8u) == INGOT_ERR_ABI);
    CHECK(net_init_(&net, arena, ARENA_BYTES, INGOT_ABI, info) == INGOT_OK && net != NULL);
}

static void check_run(unsigned char *arena, const float *x, float *y)
{
    net_type *net = (net_type *)(void *)arena;
    memset(arena, 0, ARENA_BYTES);
    CHECK(net_run(net, x, y) == INGOT_ERR_STATE);
    memset(arena, 0xa5, ARENA_BYTES);
    CHECK(net_run(net, x, y) == INGOT_ERR_STATE);
#if defined(WEIGHTS_ARE_A_FILE)
    CHECK(net_set_weights(net, arena, WEIGHTS_BYTES) == INGOT_ERR_STATE);
    CHECK(net_init(&net, arena, ARENA_BYTES) == INGOT_OK);
    CHECK(net_run(net, x, y) == INGOT_ERR_WEIGHTS);
    CHECK(net_set_weights(net, NULL, WEIGHTS_BYTES) == INGOT_ERR_NULL);
    CHECK(net_set_weights(NULL, arena, WEIGHTS_BYTES) == INGOT_ERR_NULL);
    CHECK(net_set_weights(net, arena, WEIGHTS_BYTES - 1u) == INGOT_ERR_WEIGHTS);
    CHECK(net_set_weights(net, arena + 4, WEIGHTS_BYTES) == INGOT_ERR_WEIGHTS);
    CHECK(net_run(net, x, y) == INGOT_ERR_WEIGHTS);
#endif
    net = new_instance();
    CHECK(net_run(NULL, x, y) == INGOT_ERR_NULL);
    CHECK(net_run(net, NULL, y) == INGOT_ERR_NULL);
    CHECK(net_run(net, x, NULL) == INGOT_ERR_NULL);
    CHECK(net_run(net, x, y) == INGOT_OK);
}

static void check_info(void)
{
    CHECK(net_info.abi == INGOT_ABI && net_info.struct_bytes == sizeof(ingot_model_info));
    CHECK(net_info.arena_bytes == ARENA_BYTES && net_info.arena_align == ARENA_ALIGN);
    CHECK(net_info.weights_bytes == WEIGHTS_BYTES && net_info.n_dims == 0);
    CHECK(net_info.n_inputs == 1 && net_info.n_outputs == 1);
    for (int output = 0; output < 2; ++output) {
        const ingot_tensor_info *tensor = output ? net_info.outputs : net_info.inputs;
        int64_t size = 1;
        for (int32_t i = 0; i < tensor->ndim; ++i) size *= tensor->dims[i];
        CHECK(tensor->dtype == INGOT_FLOAT32 && size == (output ? OUTPUT_SIZE : INPUT_SIZE));
    }
}

int main(void)
{
    unsigned char *arena = allocate(ARENA_BYTES + ARENA_ALIGN, ARENA_ALIGN, 0);
    check_info();
    check_init(arena);
    check_run(arena, made_up_input(0, 0), allocate((size_t)OUTPUT_SIZE * sizeof(float), 64, 0));
    return 0;
}
