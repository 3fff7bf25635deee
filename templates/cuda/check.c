static int failed(cudaError_t error, const char *call)
{
    if (error != cudaSuccess) fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
    return error != cudaSuccess;
}
#define CUDA(call) \
    do { \
        if (failed(call, #call)) return 1; \
    } while (0)

static int refused(ingot_status status, const [[ name ]] *net)
{
    const cudaError_t error = (cudaError_t)[[ name ]]_device_error(net);
    if (status == INGOT_ERR_DEVICE) fprintf(stderr, "[[ name ]]: %s\n", cudaGetErrorString(error));
    else if (status != INGOT_OK) fprintf(stderr, "[[ name ]]: %s\n", ingot_status_str(status));
    return status != INGOT_OK;
}

