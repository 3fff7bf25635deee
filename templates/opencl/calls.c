[# How programs on the host call OpenCL. #]
[% macro open() -%]
    OPENCL(first_queue(&context, &queue));
[%- endmacro %]
[% macro allocate(pointer, bytes, align) -%]
    [[ pointer ]] = clSVMAlloc(context, CL_MEM_READ_WRITE, [[ bytes ]], [[ align ]]);
    if ([[ pointer ]] == NULL) return 1;
[%- endmacro %]
[% macro upload(to, from, bytes) -%]
    OPENCL(clEnqueueSVMMemcpy(queue, CL_TRUE, [[ to ]], [[ from ]], [[ bytes ]], 0, NULL, NULL));
[%- endmacro %]
[% macro download(to, from, bytes) -%]
    OPENCL(clEnqueueSVMMemcpy(queue, CL_TRUE, [[ to ]], [[ from ]], [[ bytes ]], 0, NULL, NULL));
[%- endmacro %]
[% macro finish() -%]
    OPENCL(clFinish(queue));
[%- endmacro %]
[% macro free(pointer) -%]
    clSVMFree(context, [[ pointer ]]);
[%- endmacro %]
[% macro close() -%]
    [[ name ]]_release(net);
    OPENCL(clReleaseCommandQueue(queue));
    OPENCL(clReleaseContext(context));
[%- endmacro %]
