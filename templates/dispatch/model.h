[% extends "model.h" %]
[% block notes %]
 * There is code for [[ targets|map(attribute="name")|join(", ") ]]: [[ name ]]_init takes the first of these that the processor
 * runs. Nothing here allocates, prints or aborts. Instances share no state: each thread may run one of its own.
[% endblock %]
[% block instances %]
/* What there is code for, the best first. */
#define [[ upper ]]_TARGETS [[ targets|length ]]
extern const char *const [[ name ]]_target_names[[ "[" ]][[ upper ]]_TARGETS];

/* Whether this processor runs that of a target, and this library was built with it. */
int [[ name ]]_runs_target(int32_t target);

/* Make an instance inside the arena, which must be aligned to [[ upper ]]_ARENA_ALIGN, of the first target that this
 * processor runs.
[% if further %]
 * So must the other memories; one of no bytes may be NULL.
[% endif %]
 * Returns INGOT_OK, or INGOT_ERR_NULL, INGOT_ERR_ARENA_SIZE, INGOT_ERR_ARENA_ALIGN, INGOT_ERR_ABI, or INGOT_ERR_TARGET:
 * it runs none of them. */
ingot_status [[ name ]]_init_([[ name ]] **net, [[ arena_parameters ]], uint32_t abi, size_t info_bytes);
static inline ingot_status [[ name ]]_init([[ name ]] **net, [[ arena_parameters ]])
{
    return [[ name ]]_init_(net, [[ arena_arguments ]], INGOT_ABI, sizeof(ingot_model_info));
}

/* The same of one target, by its number in [[ name ]]_target_names. */
ingot_status [[ name ]]_init_target_([[ name ]] **net, [[ arena_parameters ]], int32_t target, uint32_t abi,
    size_t info_bytes);
static inline ingot_status [[ name ]]_init_target([[ name ]] **net, [[ arena_parameters ]], int32_t target)
{
    return [[ name ]]_init_target_(net, [[ arena_arguments ]], target, INGOT_ABI, sizeof(ingot_model_info));
}
[% if weights == "stream" %]

/* Read weights by `read`, to which `user` is passed: each call's into the arena, while the call before it computes.
 * Returns INGOT_OK, INGOT_ERR_NULL or INGOT_ERR_STATE. */
ingot_status [[ name ]]_set_reader([[ name ]] *net, ingot_reader read, void *user);
[% endif %]
[% if weights == "file" %]

/* Use `weights`: the contents of [[ name ]]_weights.bin, read or mapped by the caller, 64-byte aligned, kept as long as
 * the network runs. Returns INGOT_OK, INGOT_ERR_NULL or INGOT_ERR_WEIGHTS (another size, or misaligned). */
ingot_status [[ name ]]_set_weights([[ name ]] *net, const void *weights, size_t bytes);
[% endif %]
[% endblock %]
[% block profile %]
[% endblock %]
