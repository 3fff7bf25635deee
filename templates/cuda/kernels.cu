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
[% for variable, call in launches[k.function.name].maps %]
    ingot_tensor_map [[ variable ]];
[% endfor %]
    void *arguments[] = {[[ launches[k.function.name].arguments ]]};
[% if launches[k.function.name].maps %]
    cudaError_t error = cudaSuccess;
    if (ingot_is_empty(grid)) return cudaSuccess;
[% for variable, call in launches[k.function.name].maps %]
    if ((error = [[ call ]]) != cudaSuccess) return error;
[% endfor %]
    return cudaLaunchKernel([[ k.function.name ]], grid, block, arguments, shared, stream);
[% else %]
    return ingot_is_empty(grid) ? cudaSuccess : cudaLaunchKernel([[ k.function.name ]], grid, block, arguments, shared, stream);
[% endif %]
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
