/* [[ file ]]: kernels of [[ name ]], and how they are launched.
 *
 * [[ stamp ]]
 */
[% include "kernel_functions.c" %]

/* ---- launches ----------------------------------------------------------------------------------------------- */

static bool ingot_is_empty(dim3 grid) { return grid.x == 0 || grid.y == 0 || grid.z == 0; }
[% for k in kernels %]

[[ launches[k.function.name].signature ]]
{
    void *arguments[] = {[[ launches[k.function.name].arguments ]]};
    return ingot_is_empty(grid) ? cudaSuccess : cudaLaunchKernel([[ k.function.name ]], grid, block, arguments, shared, stream);
}
[% endfor %]

cudaError_t [[ name ]]_load_[[ part ]](void)
{
    cudaFuncAttributes attributes;
    cudaError_t error = cudaSuccess;
[% for k in kernels %]
    if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, [[ k.function.name ]]);
[% if launches[k.function.name].shared %]
    if (error == cudaSuccess) error = cudaFuncSetAttribute([[ k.function.name ]], cudaFuncAttributeMaxDynamicSharedMemorySize, [[ launches[k.function.name].shared ]]);
[% endif %]
[% endfor %]
    return error;
}
