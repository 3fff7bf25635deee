[% extends "selftest.c" %]
[% block headers %]
#include <cuda_runtime.h>

[% endblock %]
[% block helpers %]
[% include "cuda/check.c" %]
[% endblock %]
[% block memory %]
[% include "cuda/memory.c" %]
[% include "device/tensors.c" %]
[% endblock %]
[% block runs %]
[% include "cuda/instance.c" %]
    if (refused(status, net)) return 1;
[% for t in inputs %]
    memcpy([[ t.name ]], [[ name ]]_selftest_data + [[ t.test_offset ]], sizeof [[ t.name ]]);
    CUDA(cudaMemcpyAsync(device.[[ t.name ]], [[ t.name ]], sizeof [[ t.name ]], cudaMemcpyHostToDevice, stream));
[% endfor %]

    status = [[ name ]]_run([[ run_arguments ]]);
[% for t in outputs %]
    CUDA(cudaMemcpyAsync([[ t.name ]], device.[[ t.name ]], sizeof [[ t.name ]], cudaMemcpyDeviceToHost, stream));
[% endfor %]
    CUDA(cudaStreamSynchronize(stream));
    if (refused(status, net)) return 1;

    /* The second run[[ " finds what the first one left" if waits else " is that of a graph" ]]. */
[% include "cuda/graph.c" %]
    if (refused(status, net)) return 1;
[% for t in inputs if not t.const %]
    CUDA(cudaMemcpyAsync(device.[[ t.name ]], [[ t.name ]], sizeof [[ t.name ]], cudaMemcpyHostToDevice, stream));
[% endfor %]
[% if waits %]
    status = [[ name ]]_run([[ run_arguments ]]);
    if (refused(status, net)) return 1;
[% else %]
    CUDA(cudaGraphLaunch(executable, stream));
[% endif %]
[% for t in outputs %]
    CUDA(cudaMemcpyAsync([[ t.name ]]_again, device.[[ t.name ]], sizeof [[ t.name ]], cudaMemcpyDeviceToHost, stream));
[% endfor %]
    CUDA(cudaStreamSynchronize(stream));
[% endblock %]
[% block status %]
[% endblock %]
[% block release %]
[% include "cuda/release.c" %]
[% endblock %]
