/* [[ file ]]: [[ what ]], as arrays of words, which mean the same in every byte order.
 *
 * [[ stamp ]]
 */
#include "ingot.h"

INGOT_ALIGNED(64) static const struct {
[% for p in segments %]
    uint[[ p.bits ]]_t part_[[ loop.index ]][[ "[" ]][[ p.count ]]];
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
