/* [[ name ]]_kernels.h: one function per kernel. Internal to the network.
 *
 * [[ stamp ]]
 */
#ifndef [[ upper ]]_KERNELS_H
#define [[ upper ]]_KERNELS_H

#include "ingot.h"
[% if has_team %]
#include "ingot_team.h"
[% endif %]

[% for k in kernels %]
[[ "INGOT_CODE " if places_code ]][[ k.signature ]];
[% endfor %]

#endif /* [[ upper ]]_KERNELS_H */
