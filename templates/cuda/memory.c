[% include "device/memory.c" %]
    cudaStream_t stream;
[% if not waits %]
    cudaGraph_t graph;
    cudaGraphExec_t executable;
[% endif %]
