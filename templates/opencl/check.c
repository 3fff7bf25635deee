#define OPENCL(call) \
    do { \
        const cl_int result = (call); \
        if (result != CL_SUCCESS) { \
            fprintf(stderr, "%s: error %d\n", #call, (int)result); \
            return 1; \
        } \
    } while (0)

static int refused(ingot_status status, const [[ name ]] *net)
{
    if (status == INGOT_ERR_DEVICE) fprintf(stderr, "[[ name ]]: OpenCL's error %d\n", (int)[[ name ]]_device_error(net));
    else if (status != INGOT_OK) fprintf(stderr, "[[ name ]]: %s\n", ingot_status_str(status));
    return status != INGOT_OK;
}

/* A queue of the first device, of $INGOT_OPENCL_PLATFORM, a number, or of the first platform. */
static cl_int first_queue(cl_context *context, cl_command_queue *queue)
{
    cl_platform_id platforms[16];
    cl_device_id device;
    cl_uint count = 0;
    const char *const wanted = getenv("INGOT_OPENCL_PLATFORM");
    cl_uint number = wanted != NULL ? (cl_uint)atoi(wanted) : 0;
    cl_int result = clGetPlatformIDs(16, platforms, &count);
    if (result != CL_SUCCESS) return result;
    if (number >= count || number >= 16) return CL_INVALID_PLATFORM;
    result = clGetDeviceIDs(platforms[number], CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    if (result != CL_SUCCESS) return result;
    *context = clCreateContext(NULL, 1, &device, NULL, NULL, &result);
    if (result != CL_SUCCESS) return result;
    *queue = clCreateCommandQueueWithProperties(*context, device, NULL, &result);
    return result;
}

