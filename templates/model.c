[% if not single %]
/* [[ name ]].c: the network's interface, and the order in which its kernels run.
 *
 * [[ stamp ]]
 */
[% if has_team %]
#include "ingot_threads.h"

[% endif %]
[% if copies %]
#include <string.h>

[% endif %]
#include "[[ name ]].h"

#include "[[ name ]]_kernels.h"
[% for header in run_headers %]
#include "[[ header ]]"
[% endfor %]
[% if uses_tiles %]
#include "ingot_tiles.h"
[% endif %]
[% endif %]
[% if weights != "array" %]

[% include "byte_order.c" %]
[% endif %]
[% if needs_64_bits %]

#if PTRDIFF_MAX < 2147483648
#error "[[ name ]] needs a machine of 64 bits: its arena, weights or tensors are larger than 2 GB"
#endif
[% endif %]

[% if weights in ("incbin", "array") and not single %]
/* [[ name ]]_weights.[[ "S" if weights == "incbin" else "c" ]]: every weight at its offset, packed for the kernels. */
[% for blob in weight_blobs %]
extern const unsigned char [[ "*const " + blob if weights == "array" else blob + "[]" ]];
[% endfor %]

[% endif %]
[% block state %]
struct [[ name ]] {
    uint64_t magic;               /* says that the arena holds an instance */
    uint64_t arena_bytes;
    const unsigned char *weights;
    unsigned char *memory;        /* intermediate tensors, as the memory plan places them */
[% for m in further %]
    unsigned char *[[ m.name ]];
[% endfor %]
[% if weights == "stream" %]
    ingot_reader read;              /* reads weights, with its user's pointer */
    void *reader;
[% endif %]
    unsigned char *scratch;       /* after them, memory of each thread's own */
    int32_t threads;              /* how many threads that is for */
#if defined(INGOT_PROFILE)
    ingot_profile_hook hook;
    void *hook_user;
#endif
};
#define [[ upper ]]_MAGIC UINT64_C([[ magic ]])
#define [[ upper ]]_HEADER_BYTES [[ header_bytes ]]u
typedef char [[ name ]]_header_fits[sizeof(struct [[ name ]]) <= [[ upper ]]_HEADER_BYTES ? 1 : -1];
[% endblock %]

[% if weight_places %]
/* ---- weights ------------------------------------------------------------------------------------------------ */

/* Where each weight is, in bytes. */
[% for line in weight_places %]
[[ line ]]
[% endfor %]
[% if weight_blobs|length == 1 %]
#define WEIGHT(place) ((const void *)(w + (place)))
[% else %]
[% for blob in weight_blobs %]
#define WEIGHT_[[ loop.index0 ]](place) ((const void *)(w_[[ loop.index0 ]] + (place)))
[% endfor %]
[% endif %]

[% endif %]
[% include "description.c" %]
/* ---- instances ---------------------------------------------------------------------------------------------- */

uint64_t [[ name ]]_arena_bytes_([[ dim_params or "void" ]])
{
[% for d in dims_without_memory %]
    (void)[[ d ]];
[% endfor %]
    return [[ fixed_bytes ~ "u + (uint64_t)(" ~ memory_bytes ~ ")" if dims else upper ~ "_ARENA_BYTES" ]];
}

[% block instances %]
ingot_status [[ name ]]_init_([[ name ]] **net, [[ arena_parameters ]], uint32_t abi, size_t info_bytes)
{
    ingot_status status = ingot_check_abi(abi, info_bytes);
    if (status != INGOT_OK) return status;
    if (net == NULL) return INGOT_ERR_NULL;
    *net = NULL;
[% if weights != "array" %]
    {
        const uint32_t one = 1; /* its first byte tells the byte order of this machine */
        if (*(const unsigned char *)&one != [[ 1 - big_endian ]]) return INGOT_ERR_WEIGHTS;
    }
[% endif %]
    status = ingot_check_arena([[ arena ]], [[ arena ]]_bytes, [[ fixed_bytes ~ "u" if dims else upper + "_ARENA_BYTES" ]], [[ upper ]]_ARENA_ALIGN);
    if (status != INGOT_OK) return status;
[% for m in further if m.bytes %]
    status = ingot_check_arena([[ m.name ]], [[ m.name ]]_bytes, [[ upper ]]_ARENA_[[ m.upper ]]_BYTES, [[ upper ]]_ARENA_ALIGN);
    if (status != INGOT_OK) return status;
[% endfor %]
    *net = [[ arena ]];
    (*net)->magic = [[ upper ]]_MAGIC;
    (*net)->arena_bytes = [[ arena ]]_bytes;
    (*net)->weights = [[ "NULL" if weights in ("file", "stream") else weight_blobs[0] ]];
[% if weights == "stream" %]
    (*net)->read = NULL;
    (*net)->reader = NULL;
[% endif %]
    (*net)->memory = (unsigned char *)[[ arena ]] + [[ upper ]]_HEADER_BYTES;
[% for m in further %]
    (*net)->[[ m.name ]] = [[ m.name ]];
[% if not m.bytes %]
    (void)[[ m.name ]]_bytes; /* no tensor lies there */
[% endif %]
[% endfor %]
    (*net)->scratch = [[ "(*net)->memory" if dims else "(*net)->memory + " + memory_bytes ]];
    (*net)->threads = [[ arena_threads ]];
[% if thread_bytes and has_team and not dims %]
    {
        const uint64_t more = (arena_bytes - [[ upper ]]_ARENA_BYTES) / [[ upper ]]_THREAD_BYTES;
        (*net)->threads += (int32_t)(more < INGOT_TEAM_PARTS ? more : INGOT_TEAM_PARTS);
    }
[% endif %]
#if defined(INGOT_PROFILE)
    (*net)->hook = NULL;
    (*net)->hook_user = NULL;
#endif
[% if init_lines %]

    /* Padding regions, which no run writes to. */
[% for line in init_lines %]
    [[ line ]]
[% endfor %]
[% endif %]
    return INGOT_OK;
}
[% if weights == "file" %]

ingot_status [[ name ]]_set_weights([[ name ]] *net, const void *weights, size_t bytes)
{
    if (net == NULL || weights == NULL) return INGOT_ERR_NULL;
    if (net->magic != [[ upper ]]_MAGIC) return INGOT_ERR_STATE;
    if (bytes != [[ upper ]]_WEIGHTS_BYTES || (uintptr_t)weights % 64u != 0) return INGOT_ERR_WEIGHTS;
    net->weights = weights;
    return INGOT_OK;
}
[% endif %]
[% if weights == "stream" %]

ingot_status [[ name ]]_set_reader([[ name ]] *net, ingot_reader read, void *user)
{
    if (net == NULL || read == NULL) return INGOT_ERR_NULL;
    if (net->magic != [[ upper ]]_MAGIC) return INGOT_ERR_STATE;
    net->read = read;
    net->reader = user;
    return INGOT_OK;
}
[% endif %]
[% endblock %]

/* ---- profiling ---------------------------------------------------------------------------------------------- */

#if defined(INGOT_PROFILE)
const char *const [[ name ]]_call_names[] = {
[% for function in call_names %]
    "[[ function ]]",
[% endfor %]
    NULL
};

ingot_status [[ name ]]_set_profile([[ name ]] *net, ingot_profile_hook hook, void *user)
{
    if (net == NULL) return INGOT_ERR_NULL;
    if (net->magic != [[ upper ]]_MAGIC) return INGOT_ERR_STATE;
    net->hook = hook;
    net->hook_user = user;
    return INGOT_OK;
}
#endif

[% if has_tensors and not dims %]
/* The address of a tensor, computed at each call, so that of many tensors none is kept on the stack. */
#define TENSOR(place) ((void *)(m + (place)))
[% for m in further %]
#define IN_[[ m.upper ]](place) ((void *)(m_[[ m.upper|lower ]] + (place)))
[% endfor %]
[% endif %]
[% if thread_bytes %]
/* Scratch memory: of the first thread, and of each thread of a team. */
#define FIRST_SCRATCH(place) ((void *)(scratch + (place)))
[% if has_team %]
#define OWN_SCRATCH(place) FIRST_SCRATCH(worker->number * (size_t)[[ upper ]]_THREAD_BYTES + (place))
[% endif %]
[% endif %]

/* ---- inference ---------------------------------------------------------------------------------------------- */

[% if has_team %]
/* What a run passes to its threads. */
struct ingot_call {
    [[ name ]] *net;
[% for field in call_fields %]
    [[ field ]];
[% endfor %]
};

[% endif %]
[% for region in regions %]
/* All threads of a team make these calls: they share the iterations of the loops inside. */
static void ingot_run_[[ region.number ]](ingot_worker *worker, const void *from)
{
    const struct ingot_call call = *(const struct ingot_call *)from;
[% for line in region.fields + region.pointers + region.tensors %]
    [[ line ]]
[% endfor %]
    ingot_joined(worker);

[% for line in region.lines %]
    [[ line ]]
[% endfor %]
[% if uses_tiles %]
    ingot_tiles_end();
[% endif %]
}

[% endfor %]
[[ run_signature ]]
{
    if ([[ null_checks ]]) return INGOT_ERR_NULL;
    if (net->magic != [[ upper ]]_MAGIC) return INGOT_ERR_STATE;
[% block tensors %]
[% endblock %]
[% if weights == "file" %]
    if (net->weights == NULL) return INGOT_ERR_WEIGHTS;
[% endif %]
[% if weights == "stream" %]
    if (net->read == NULL) return INGOT_ERR_WEIGHTS;
[% endif %]
[% for d in dims %]
    if ([[ d ]] < [[ least_dims[d] ]] || [[ d ]] > INT32_MAX) return INGOT_ERR_DIM;
[% endfor %]
[% for check in dim_checks %]
    if ([[ check ]]) return INGOT_ERR_DIM;
[% endfor %]
[% if dims %]
    if (net->arena_bytes < [[ name ]]_arena_bytes_([[ dims|join(", ") ]])) return INGOT_ERR_ARENA_SIZE;
[% endif %]
[% for check in index_checks %]
    for (int64_t i = 0; i < [[ check.size ]]; ++i) {
        if ([[ check.name ]][i] < [[ check.low ]] || [[ check.name ]][i] >= [[ check.high ]]) return INGOT_ERR_INDEX;
    }
[% endfor %]

[% if dims and thread_bytes %]
    net->scratch = net->memory + [[ memory_bytes ]];
[% if has_team %]
    const uint64_t more = (net->arena_bytes - [[ name ]]_arena_bytes_([[ dims|join(", ") ]])) / [[ upper ]]_THREAD_BYTES;
    net->threads = [[ arena_threads ]] + (int32_t)(more < INGOT_TEAM_PARTS ? more : INGOT_TEAM_PARTS);
[% endif %]
[% endif %]
[% for line in run_pointers + run_tensors + variables %]
    [[ line ]]
[% endfor %]
[% if has_team %]
    [[ call_kind ]] ingot_call call = {[[ call_values ]]};
[% endif %]
[% for line in run_lines %]
[[ "    " ~ line if line else "" ]]
[% endfor %]
[% if uses_tiles and not ends_in_region %]
    ingot_tiles_end();
[% endif %]
[% for d in found %]
    *[[ d.pointer ]] = [[ d.name ]];
[% endfor %]
    INGOT_MARK(net, [[ call_names|length ]]);
    return INGOT_OK;
}
