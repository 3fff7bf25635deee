[# How programs on the host call CUDA. #]
[% macro open() -%]
    CUDA(cudaStreamCreate(&stream));
[%- endmacro %]
[% macro allocate(pointer, bytes, align) -%]
    CUDA(cudaMalloc((void **)&[[ pointer ]], [[ bytes ]]));
[%- endmacro %]
[% macro upload(to, from, bytes) -%]
    CUDA(cudaMemcpyAsync([[ to ]], [[ from ]], [[ bytes ]], cudaMemcpyHostToDevice, stream));
[%- endmacro %]
[% macro download(to, from, bytes) -%]
    CUDA(cudaMemcpyAsync([[ to ]], [[ from ]], [[ bytes ]], cudaMemcpyDeviceToHost, stream));
[%- endmacro %]
[% macro finish() -%]
    CUDA(cudaStreamSynchronize(stream));
[%- endmacro %]
[% macro free(pointer) -%]
    CUDA(cudaFree([[ pointer ]]));
[%- endmacro %]
[% macro close() -%]
    CUDA(cudaStreamDestroy(stream));
[%- if captures %]

    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaGraphDestroy(graph));
[%- endif %]
[%- endmacro %]
