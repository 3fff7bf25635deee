/* [[ file ]]: [[ what ]], as an array.
 *
 * [[ stamp ]]
 */
#include "ingot.h"

extern const unsigned char [[ symbol ]][];
INGOT_ALIGNED(64) const unsigned char [[ symbol ]][] = {
[[ rows ]]
};
