/* Shared virtual memory over the buffers of OpenCL 1.2, for simulators that have no more: addresses are those of blocks
 * that nobody reads, each with a buffer. A kernel's pointer is a part of the buffer, from there to its end. Test only. */
#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdlib.h>

enum { BLOCKS = 256 };
static struct { unsigned char *at; size_t size; cl_mem buffer; } blocks[BLOCKS];

void *clSVMAlloc(cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment)
{
    (void)flags, (void)alignment;
    for (int i = 0; i < BLOCKS; ++i)
        if (blocks[i].at == NULL) {
            cl_int error;
            blocks[i].at = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
            blocks[i].size = size;
            blocks[i].buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, size, NULL, &error);
            return error == CL_SUCCESS ? blocks[i].at : NULL;
        }
    return NULL;
}

static int block_of(const void *p)
{
    for (int i = 0; i < BLOCKS; ++i)
        if (blocks[i].at != NULL && (const unsigned char *)p >= blocks[i].at
            && (const unsigned char *)p < blocks[i].at + blocks[i].size) return i;
    return -1;
}

cl_int clSetKernelArgSVMPointer(cl_kernel kernel, cl_uint number, const void *p)
{
    const int i = block_of(p);
    cl_int error = CL_INVALID_ARG_VALUE;
    cl_buffer_region part;
    cl_mem buffer;
    if (i < 0) return error;
    part.origin = (size_t)((const unsigned char *)p - blocks[i].at);
    part.size = blocks[i].size - part.origin;
    buffer = part.origin == 0 ? blocks[i].buffer : clCreateSubBuffer(
        blocks[i].buffer, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &part, &error);
    if (part.origin != 0 && error != CL_SUCCESS) return error;
    return clSetKernelArg(kernel, number, sizeof buffer, &buffer);
}

cl_int clEnqueueSVMMemcpy(cl_command_queue queue, cl_bool blocking, void *dst, const void *src, size_t size,
    cl_uint count, const cl_event *events, cl_event *event)
{
    const int to = block_of(dst), from = block_of(src);
    const size_t there = to < 0 ? 0 : (size_t)((unsigned char *)dst - blocks[to].at);
    const size_t here = from < 0 ? 0 : (size_t)((const unsigned char *)src - blocks[from].at);
    (void)blocking;
    if (to >= 0 && from >= 0)
        return clEnqueueCopyBuffer(queue, blocks[from].buffer, blocks[to].buffer, here, there, size, count, events,
                                   event);
    if (to >= 0)
        return clEnqueueWriteBuffer(queue, blocks[to].buffer, CL_TRUE, there, size, src, count, events, event);
    if (from >= 0)
        return clEnqueueReadBuffer(queue, blocks[from].buffer, CL_TRUE, here, size, dst, count, events, event);
    return CL_INVALID_VALUE;
}

cl_command_queue clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
    const cl_queue_properties *properties, cl_int *error)
{
    (void)properties;
    return clCreateCommandQueue(context, device, 0, error);
}
