/* [[ file ]]: kernels of [[ name ]] as text for the driver's compiler, which [[ file|replace(".c", ".cl") ]] shows, and
 * how they are launched.
 *
 * [[ stamp ]]
 */
#include <stdio.h>
#include <string.h>

#include "[[ name ]]_kernels.h"

static const char *text[] = {
[% for line in lines %]
    "[[ line ]]",
[% endfor %]
};

/* Prints what the driver's compiler says of an error: a build with -DINGOT_OPENCL_LOG. */
static void ingot_print_log(cl_program program, cl_device_id device)
{
#if defined(INGOT_OPENCL_LOG)
    static char log[1 << 14];
    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL) == CL_SUCCESS) puts(log);
#else
    (void)program, (void)device;
#endif
}

cl_int [[ name ]]_load_[[ part ]](cl_command_queue queue, cl_program *program, cl_kernel *kernels)
{
    cl_context context;
    cl_device_id device;
    cl_int error = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (error == CL_SUCCESS) error = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (error != CL_SUCCESS) return error;
    *program = clCreateProgramWithSource(context, (cl_uint)(sizeof text / sizeof *text), text, NULL, &error);
    if (error != CL_SUCCESS) return error;
    error = clBuildProgram(*program, 1, &device, "-cl-std=CL1.2", NULL, NULL);
    if (error != CL_SUCCESS) ingot_print_log(*program, device);
[% for k in kernels %]
    if (error == CL_SUCCESS) kernels[ [[- kernel_numbers[k.function.name] ]]] = clCreateKernel(*program, "[[ k.function.name ]]", &error);
[% endfor %]
    return error;
}

/* ---- launches ----------------------------------------------------------------------------------------------- */
[% for k in kernels %]

[[ launches[k.function.name].signature ]]
{
    cl_int error = CL_SUCCESS;
[% for call in launches[k.function.name].arguments %]
    if (error == CL_SUCCESS) error = [[ call ]];
[% endfor %]
    return error == CL_SUCCESS ? ingot_enqueue(queue, kernel, grid, block) : error;
}
[% endfor %]
