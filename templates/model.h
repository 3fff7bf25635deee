/* [[ name ]].h: [[ title ]]
 *
 * [[ stamp ]]
 *
 * A dense row-major tensor is a plain pointer. Inputs and outputs:
[% for t in inputs %]
 *   [[ "in  " if t.const else "both" ]] [[ t.name ]]: [[ t.dtype ]] [[ t.shape_text ]]
[% endfor %]
[% for t in outputs %]
 *   out  [[ t.name ]]: [[ t.dtype ]] [[ t.shape_text ]]
[% endfor %]
 *
[% if updates %]
 * "both": a run reads the rows that the dimensions say, and writes new rows behind them, or where the model says. It
 * neither reads nor writes the rest.
 *
[% endif %]
[% block notes %]
 * Nothing here allocates, prints or aborts. Instances share no state: each thread may run one of its own.
[% endblock %]
 */
#ifndef [[ upper ]]_H
#define [[ upper ]]_H

#include <stddef.h>
#include <stdint.h>

[% if single %]
[[ runtime ]]
[% else %]
#include "[[ "ingot_module.h" if packed_functions else "ingot.h" ]]"
[% endif %]

#ifdef __cplusplus
extern "C" {
#endif

[% block memory %]
[% if not dims or arena_bytes %]
/* Bytes of working memory that the caller passes to [[ name ]]_init, and does not touch while the network is in use[[ ": enough for all sizes up to the bounds of " ~ dims|join(", ") if dims else "" ]]. */
#define [[ upper ]]_ARENA_BYTES [[ arena_bytes ]]u
[% endif %]
[% if further %]
/* The same, of the other memories that it passes; the first is that of [[ arena.removeprefix("arena_") ]]. */
[% for m in further %]
#define [[ upper ]]_ARENA_[[ m.upper ]]_BYTES [[ m.bytes ]]u
[% endfor %]
#define [[ upper ]]_ARENA_[[ arena.removeprefix("arena_")|upper ]]_BYTES [[ upper ]]_ARENA_BYTES
[% endif %]
#define [[ upper ]]_ARENA_ALIGN [[ arena_align ]]u
[% if thread_bytes %]
/* Bytes of it that are one thread's scratch memory. [[ "There is room for " ~ arena_threads ~ " threads, in a larger arena for more." if has_team else "There is room for one thread." ]] */
#define [[ upper ]]_THREAD_BYTES [[ thread_bytes ]]u
[% endif %]
/* The most bytes of stack that [[ name ]]_run uses, in the thread that calls it and in each that OpenMP starts, compiled by gcc
 * or clang at -O1 or higher. */
#define [[ upper ]]_STACK_BYTES [[ stack_bytes ]]u
[% endblock %]
#define [[ upper ]]_WEIGHTS_BYTES [[ weights_bytes ]]u
[% if ram_bytes %]
/* Bytes of memory in all: arena, stack, inputs and outputs. */
#define [[ upper ]]_RAM_BYTES [[ ram_bytes ]]u
[% endif %]

/* Elements of each input and output[[ ", of which a run may write fewer" if found else "" ]]. */
[% for t in inputs + outputs %]
#define [[ upper ]]_[[ t.upper ]]_SIZE[[ "(" + dims|join(", ") + ")" if t.symbolic else "" ]] [[ t.size ]]
[% endfor %]

[% if packed_functions %]
/* Functions of the program's own that [[ name ]]_run calls, with tensors and numbers, the tensors that they write last. */
[% for p in packed_functions %]
[[ p.declaration ]]; /* [[ p.name ]] */
[% endfor %]

[% endif %]
typedef struct [[ name ]] [[ name ]];

/* Names, types and dimensions of everything above, as data. */
extern const ingot_model_info [[ name ]]_info;
[% if weights == "extern" %]

/* The weights ([[ name ]]_weights.bin), which the program that uses the network links in, 64-byte aligned.
 * [[ name ]]_weights.S is one way to provide them. */
extern const unsigned char [[ weights_symbol ]][[ "[]" ]];
[% endif %]

/* Arena bytes needed for a run[[ " with these dimensions, each at least 1" if dims else "" ]]. */
uint64_t [[ name ]]_arena_bytes_([[ dim_params or "void" ]]);
[% if dims %]
static inline uint64_t [[ name ]]_arena_bytes([[ dim_params ]]) { return [[ name ]]_arena_bytes_([[ dims|join(", ") ]]); }
[% endif %]

[% block instances %]
/* Make an instance inside the arena, which must be aligned to [[ upper ]]_ARENA_ALIGN[[ ", as the other memories must; one of no bytes may be NULL" if further ]].
 * Returns INGOT_OK, or INGOT_ERR_NULL, INGOT_ERR_ARENA_SIZE, INGOT_ERR_ARENA_ALIGN, INGOT_ERR_ABI. */
ingot_status [[ name ]]_init_([[ name ]] **net, [[ arena_parameters ]], uint32_t abi, size_t info_bytes);
static inline ingot_status [[ name ]]_init([[ name ]] **net, [[ arena_parameters ]])
{
    return [[ name ]]_init_(net, [[ arena_arguments ]], INGOT_ABI, sizeof(ingot_model_info));
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
#if defined(INGOT_PROFILE)
/* In a build of [[ name ]].c with -DINGOT_PROFILE: call hook(user, i) before kernel call i, and with i = [[ call_names|length ]] after the
 * last; NULL: no more. call_names[i] is the kernel of call i, NULL after the last. Returns INGOT_OK, INGOT_ERR_NULL or
 * INGOT_ERR_STATE. */
ingot_status [[ name ]]_set_profile([[ name ]] *net, ingot_profile_hook hook, void *user);
extern const char *const [[ name ]]_call_names[];
#endif
[% endblock %]

[% block inference %]
/* One inference. Outputs must not overlap inputs.
[% for d in found %]
 * *[[ d.pointer ]]: the dimension [[ d.name ]], which the run determines.
[% endfor %]
 * Returns INGOT_OK, INGOT_ERR_NULL[[ ", INGOT_ERR_DIM (a dimension out of range), INGOT_ERR_ARENA_SIZE" if dims else ", INGOT_ERR_DIM (a dimension beyond its bound)" if bounded else "" ]]
 * [[ "INGOT_ERR_WEIGHTS (not set), " if weights == "file" else "INGOT_ERR_WEIGHTS (no reader, or it failed), " if weights == "stream" else "" ]][[ "INGOT_ERR_INDEX (an index input out of range) " if index_checks else "" ]]or INGOT_ERR_STATE (not initialized). */
[% endblock %]
[[ run_signature ]];

#ifdef __cplusplus
}
#endif

#endif /* [[ upper ]]_H */
