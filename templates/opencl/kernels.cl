/* [[ file ]]: kernels of [[ name ]], in OpenCL C 1.2.
 *
 * [[ stamp ]]
 */
[% if doubles %]
#if !defined(cl_khr_fp64)
#error "[[ name ]] computes in doubles, which this device does not have"
#endif

[% endif %]
[[ runtime ]]
[% include "kernels.c" %]
