[% extends "model.c" %]
[% block state %]
struct [[ name ]] {
    uint64_t magic;               /* says that the host's memory holds an instance */
    uint64_t arena_bytes;
    const unsigned char *weights; /* on the device */
    unsigned char *memory;        /* there too: intermediate tensors, as the memory plan places them */
    int32_t error;                /* [[ api ]]'s code of the last call */
[% block own_state %]
[% endblock %]
#if defined(INGOT_PROFILE)
    ingot_profile_hook hook;
    void *hook_user;
#endif
};
#define [[ upper ]]_MAGIC UINT64_C([[ magic ]])
typedef char [[ name ]]_host_fits[sizeof(struct [[ name ]]) <= [[ upper ]]_HOST_BYTES ? 1 : -1];

/* Call [[ api ]]; return where it refuses. */
#define TRY(net, call) \
    do { \
        (net)->error = (int32_t)(call); \
        if ((net)->error != 0) return INGOT_ERR_DEVICE; \
    } while (0)
[% endblock %]
[% block instances %]
ingot_status [[ name ]]_init_([[ name ]] **net, void *host, size_t host_bytes, void *arena, size_t arena_bytes,
    [[ stream_parameter ]], uint32_t abi, size_t info_bytes)
{
    ingot_status status = ingot_check_abi(abi, info_bytes);
    if (status != INGOT_OK) return status;
    if (net == NULL) return INGOT_ERR_NULL;
    *net = NULL;
    status = ingot_check_arena(host, host_bytes, [[ upper ]]_HOST_BYTES, [[ upper ]]_HOST_ALIGN);
    if (status != INGOT_OK) return status;
    status = ingot_check_arena(arena, arena_bytes, [[ fixed_bytes ~ "u" if dims else upper + "_ARENA_BYTES" ]], [[ upper ]]_ARENA_ALIGN);
    if (status != INGOT_OK) return status;
    *net = host;
    (*net)->magic = 0;
    (*net)->arena_bytes = arena_bytes;
    (*net)->weights = [[ "arena" if uploads else "NULL" ]];
    (*net)->memory = (unsigned char *)arena[[ " + " ~ fixed_bytes ~ "u" if fixed_bytes else "" ]];
    (*net)->error = 0;
#if defined(INGOT_PROFILE)
    (*net)->hook = NULL;
    (*net)->hook_user = NULL;
#endif

[% block load %]
[% endblock %]
[% if init_lines %]

    /* Padding regions, which no run writes to. */
[% for line in init_lines %]
    [[ line ]]
[% endfor %]
[% endif %]
[% block unused %]
[% endblock %]
    (*net)->magic = [[ upper ]]_MAGIC;
    return INGOT_OK;
}
[% if weights == "file" %]

ingot_status [[ name ]]_set_weights([[ name ]] *net, const void *weights, size_t bytes)
{
    if (net == NULL || weights == NULL) return INGOT_ERR_NULL;
    if (net->magic != [[ upper ]]_MAGIC) return INGOT_ERR_STATE;
    if (bytes != [[ upper ]]_WEIGHTS_BYTES || (uintptr_t)weights % [[ arena_align ]]u != 0) return INGOT_ERR_WEIGHTS;
    net->weights = weights;
    return INGOT_OK;
}
[% endif %]

int32_t [[ name ]]_device_error(const [[ name ]] *net) { return net == NULL ? 0 : net->error; }
[% block release %]
[% endblock %]
[% endblock %]
