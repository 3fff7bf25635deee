[% if not waits %]
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaGraphDestroy(graph));
[% endif %]
    CUDA(cudaStreamDestroy(stream));
[% for t in inputs + outputs %]
    CUDA(cudaFree(device.[[ t.name ]]));
[% endfor %]
[% if weights == "file" %]
    CUDA(cudaFree(weights));
[% endif %]
    CUDA(cudaFree(arena));
