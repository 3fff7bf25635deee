/* [[ file ]]: kernels of [[ name ]].
 *
 * [[ stamp ]]
 */
[% include "kernel_functions.c" %]
