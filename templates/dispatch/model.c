/* [[ name ]].c: the network's interface. It hands each call on to the network that is compiled for the processor's target.
 *
 * [[ stamp ]]
 */
#include "[[ name ]].h"

#include "ingot_dispatch.h"

/* What there is code for: 0 leaves a target out, whose sources are then not needed. */
[% for t in targets %]
#if !defined([[ t.macro ]])
#define [[ t.macro ]] 1
#endif
[% endfor %]

[% for t in targets %]
#if [[ t.macro ]]
#include "[[ t.prefix ]].h"
#endif
[% endfor %]

struct [[ name ]] {
    uint64_t magic;   /* says that the arena holds an instance */
    int32_t target;   /* its number in [[ name ]]_target_names */
    void *instance;   /* of that target's network, behind this one */
};
#define [[ upper ]]_MAGIC UINT64_C([[ magic ]])
#define [[ upper ]]_HEADER_BYTES 64u
typedef char [[ name ]]_header_fits[sizeof(struct [[ name ]]) <= [[ upper ]]_HEADER_BYTES ? 1 : -1];

[% include "description.c" %]
/* ---- targets ------------------------------------------------------------------------------------------------ */

const char *const [[ name ]]_target_names[[ "[" ]][[ upper ]]_TARGETS] = {[[ target_names ]]};

int [[ name ]]_runs_target(int32_t target)
{
    static const struct {
        int built;
        uint32_t needs[INGOT_FEATURE_WORDS]; /* bits, as ingot_dispatch.h reads them */
    } rows[[ "[" ]][[ upper ]]_TARGETS] = {
[% for t in targets %]
        {[[ t.macro ]], {[[ t.needs|join(", ") ]]}}, /* [[ t.isa or "nothing" ]] */
[% endfor %]
    };
    return target >= 0 && target < [[ upper ]]_TARGETS && rows[target].built && ingot_has_features(rows[target].needs);
}

uint64_t [[ name ]]_arena_bytes_([[ dim_params or "void" ]])
{
[% if dims %]
    uint64_t most = 0;
[% for t in targets %]
#if [[ t.macro ]]
    if (most < [[ t.prefix ]]_arena_bytes_([[ dims|join(", ") ]])) most = [[ t.prefix ]]_arena_bytes_([[ dims|join(", ") ]]);
#endif
[% endfor %]
    return [[ upper ]]_HEADER_BYTES + most;
[% else %]
    return [[ upper ]]_ARENA_BYTES;
[% endif %]
}

ingot_status [[ name ]]_init_target_([[ name ]] **net, [[ arena_parameters ]], int32_t target, uint32_t abi,
    size_t info_bytes)
{
    ingot_status status = ingot_check_abi(abi, info_bytes);
    if (status != INGOT_OK) return status;
    if (net == NULL) return INGOT_ERR_NULL;
    *net = NULL;
    status = ingot_check_arena([[ arena ]], [[ arena ]]_bytes, [[ upper ]]_[[ "HEADER" if dims else "ARENA" ]]_BYTES, [[ upper ]]_ARENA_ALIGN);
    if (status != INGOT_OK) return status;
[% for m in further if m.bytes %]
    status = ingot_check_arena([[ m.name ]], [[ m.name ]]_bytes, [[ upper ]]_ARENA_[[ m.upper ]]_BYTES, [[ upper ]]_ARENA_ALIGN);
    if (status != INGOT_OK) return status;
[% endfor %]
    if (![[ name ]]_runs_target(target)) return INGOT_ERR_TARGET;
    [[ name ]] *const made = [[ arena ]];
    void *const rest = (unsigned char *)[[ arena ]] + [[ upper ]]_HEADER_BYTES;
    const size_t rest_bytes = [[ arena ]]_bytes - [[ upper ]]_HEADER_BYTES;
    switch (target) {
[% for t in targets %]
#if [[ t.macro ]]
    case [[ loop.index0 ]]: {
        [[ t.prefix ]] *instance;
        status = [[ t.prefix ]]_init(&instance, rest, rest_bytes[% for m in further %], [[ m.name ]], [[ m.name ]]_bytes[% endfor %]);
        made->instance = instance;
        break;
    }
#endif
[% endfor %]
    default: return INGOT_ERR_TARGET;
    }
    if (status != INGOT_OK) return status;
    made->magic = [[ upper ]]_MAGIC;
    made->target = target;
    *net = made;
    return INGOT_OK;
}

ingot_status [[ name ]]_init_([[ name ]] **net, [[ arena_parameters ]], uint32_t abi, size_t info_bytes)
{
    int32_t target = 0;
    while (target < [[ upper ]]_TARGETS && ![[ name ]]_runs_target(target)) ++target;
    return [[ name ]]_init_target_(net, [[ arena_arguments ]], target, abi, info_bytes);
}

/* ---- calls -------------------------------------------------------------------------------------------------- */

[% for call in calls %]
[[ call.signature ]]
{
    if (net == NULL) return INGOT_ERR_NULL;
    if (net->magic != [[ upper ]]_MAGIC) return INGOT_ERR_STATE;
    switch (net->target) {
[% for t in targets %]
#if [[ t.macro ]]
    case [[ loop.index0 ]]: return [[ t.prefix ]]_[[ call.function ]](net->instance, [[ call.arguments ]]);
#endif
[% endfor %]
    default: return INGOT_ERR_STATE;
    }
}
[[ "" if loop.last else "\n" -]]
[% endfor %]
