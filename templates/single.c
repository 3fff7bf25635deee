/* [[ name ]].c: [[ title ]] in one file. [[ name ]].h is its interface; everything else is static.
 *
 * [[ stamp ]]
 *
[% for line in build_lines %]
 *   [[ line ]]
[% endfor %]
 *
 * In this order: what kernels use of Ingot's runtime, the kernels, the calls that run them[[ ", the weights" if segments else "" ]].
 */
[% if has_team %]
#if defined(_OPENMP) && defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for the threads below; before any header of the system */
#endif
[% endif %]
[% include "kernel_functions.c" %]

/* ==== the network ============================================================================================== */

[% if has_team %]
#include "ingot_threads.h"

[% endif %]
[% if copies %]
#include <string.h>

[% endif %]
#include "[[ name ]].h"

[% if segments %]
/* Every weight at its offset, packed for the kernels; their values are at the end of this file. */
struct ingot_words {
[% for p in segments %]
    uint64_t part_[[ loop.index ]][[ "[" ]][[ p.count ]]]; /* numbers of [[ p.bits ]] bits */
[% endfor %]
};
#if defined(INGOT_SECTION_WEIGHTS)
INGOT_SECTION(INGOT_SECTION_WEIGHTS)
#endif
INGOT_ALIGNED(64) static const struct ingot_words ingot_words;
static const unsigned char *const [[ name ]]_weights = (const unsigned char *)&ingot_words;

[% endif %]
[% include "model.c" %]
[% if segments %]

/* ==== weights: words, which mean the same in every byte order ================================================== */

#if defined(INGOT_SECTION_WEIGHTS)
INGOT_SECTION(INGOT_SECTION_WEIGHTS)
#endif
INGOT_ALIGNED(64) static const struct ingot_words ingot_words = {
[% for p in segments %]
    {
[[ p.rows ]]
    },
[% endfor %]
};
[% endif %]
