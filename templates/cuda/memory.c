[% include "device/memory.c" %]
    cudaStream_t stream;
[% if captures %]
    cudaGraph_t graph;
    cudaGraphExec_t executable;
[% endif %]
