/* [[ file ]]: [[ what ]], as words, which mean the same in every byte order.
 *
 * [[ stamp ]]
 */
#include "ingot.h"

[% if placed and placed != "WEIGHTS" %]
#if defined(INGOT_SECTION_[[ placed ]])
#undef INGOT_SECTION_WEIGHTS
#define INGOT_SECTION_WEIGHTS INGOT_SECTION_[[ placed ]]
#endif
[% endif %]
[% if placed %]
#if defined(INGOT_SECTION_WEIGHTS)
INGOT_SECTION(INGOT_SECTION_WEIGHTS)
#endif
[% endif %]
INGOT_ALIGNED(64) static const struct {
[% for p in segments %]
    uint64_t part_[[ loop.index ]][[ "[" ]][[ p.count ]]]; /* numbers of [[ p.bits ]] bits */
[% endfor %]
} words = {
[% for p in segments %]
    {
[[ p.rows ]]
    },
[% endfor %]
};

extern const unsigned char *const [[ symbol ]];
const unsigned char *const [[ symbol ]] = (const unsigned char *)&words;
