[% extends "model.h" %]
[% block memory %]
[% block handle %]
[% endblock %]

/* Bytes of the host's memory that hold an instance. */
#define [[ upper ]]_HOST_BYTES [[ host_bytes ]]u
#define [[ upper ]]_HOST_ALIGN 16u
[% if not dims %]
/* Bytes of the device's memory that the caller passes to [[ name ]]_init and does not touch while the network is in use[[ "." if not uploads else "" ]]
[%- if uploads %];
 * the weights are among them.
[%- endif %] */
#define [[ upper ]]_ARENA_BYTES [[ arena_bytes ]]u
[% endif %]
#define [[ upper ]]_ARENA_ALIGN [[ arena_align ]]u
[% endblock %]
[% block instances %]
[% block making %]
[% endblock %]
ingot_status [[ name ]]_init_([[ name ]] **net, void *host, size_t host_bytes, void *arena, size_t arena_bytes,
    [[ stream_parameter ]], uint32_t abi, size_t info_bytes);
static inline ingot_status [[ name ]]_init([[ name ]] **net, void *host, size_t host_bytes, void *arena, size_t arena_bytes,
    [[ stream_parameter ]])
{
    return [[ name ]]_init_(net, host, host_bytes, arena, arena_bytes, [[ stream_name ]], INGOT_ABI, sizeof(ingot_model_info));
}
[% if weights == "file" %]

/* Use `weights`: the contents of [[ name ]]_weights.bin in [[ own_memory ]], [[ arena_align ]]-byte aligned, kept there as
 * long as networks run, of which several may use them. Returns INGOT_OK, INGOT_ERR_NULL, INGOT_ERR_STATE or
 * INGOT_ERR_WEIGHTS (another size, or misaligned). */
ingot_status [[ name ]]_set_weights([[ name ]] *net, const void *weights, size_t bytes);
[% endif %]

/* [[ own_code ]] of the last call to it; 0, success, where there was none. */
int32_t [[ name ]]_device_error(const [[ name ]] *net);
[% block release %]
[% endblock %]
[% endblock %]
[% block inference %]
[% block enqueueing %]
[% endblock %]
[% for d in found %]
 * *[[ d.pointer ]]: the dimension [[ d.name ]], which the run determines, in the host's memory.
[% endfor %]
[% if index_inputs %]
 * Indices are not checked, since that would take waiting: one out of range reads the first or the last row.
[% endif %]
 * Returns INGOT_OK, INGOT_ERR_NULL, [[ "INGOT_ERR_DIM (a dimension out of range), INGOT_ERR_ARENA_SIZE, " if dims else "INGOT_ERR_DIM (a dimension beyond its bound), " if bounded else "" ]][[ "INGOT_ERR_WEIGHTS (not set), " if weights == "file" else "" ]]INGOT_ERR_STATE (not initialized)[% block tensors %][% endblock %] or
 * INGOT_ERR_DEVICE. */
[% endblock %]
