[% extends "device/example.c" %]
[% block headers %]
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

[% endblock %]
[% block timing %]
[% include "cuda/check.c" %]
#if defined(INGOT_PROFILE)
/* Events on the stream before each launch, and after the last one. */
enum { CALLS = [[ call_names|length ]] };
struct times { cudaEvent_t event[CALLS + 1]; cudaStream_t stream; };

static void keep_time(void *user, int32_t call)
{
    struct times *const t = user;
    (void)cudaEventRecord(t->event[call], t->stream);
}
#endif

[% endblock %]
[% block own_memory %]
    cudaEvent_t start, stop;
    float milliseconds;
[% endblock %]
[% block timed %]
    /* Once as it is[[ ", which waits for what tensors decide" if waits else ", which only enqueues" ]]. */
#if defined(INGOT_PROFILE)
    static struct times times;
    for (int i = 0; i <= CALLS; ++i) CUDA(cudaEventCreate(&times.event[i]));
    times.stream = stream;
    status = [[ name ]]_set_profile(net, keep_time, &times);
    if (status == INGOT_OK) status = [[ name ]]_run([[ run_arguments ]]); /* not timed: the first one is slower */
    if (status == INGOT_OK) status = [[ name ]]_run([[ run_arguments ]]);
    if (status == INGOT_OK) status = [[ name ]]_set_profile(net, NULL, NULL);
#else
    status = [[ name ]]_run([[ run_arguments ]]);
#endif
    if (refused(status, net)) return 1;

[% if captures %]
    /* Then as a graph, whose launch takes the host a fraction of that time. */
[% include "cuda/graph.c" %]
[% endif %]
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreate(&stop));
    for (int repeat = 0; repeat < 10; ++repeat) {
        CUDA(cudaEventRecord(start, stream));
[% if captures %]
        CUDA(cudaGraphLaunch(executable, stream));
[% else %]
        status = [[ name ]]_run([[ run_arguments ]]);
        if (refused(status, net)) return 1;
[% endif %]
        CUDA(cudaEventRecord(stop, stream));
        CUDA(cudaStreamSynchronize(stream));
        CUDA(cudaEventElapsedTime(&milliseconds, start, stop));
        if ((double)milliseconds < best) best = (double)milliseconds;
    }
[% endblock %]
[% block times %]
    printf("best of 10 runs[[ " as a graph" if captures else "" ]]: %.4f ms\n", best);
#if defined(INGOT_PROFILE)
    for (int i = 0; i < CALLS; ++i) {
        CUDA(cudaEventElapsedTime(&milliseconds, times.event[i], times.event[i + 1]));
        printf("%9.4f ms  %s\n", (double)milliseconds, [[ name ]]_call_names[i]);
    }
#endif
    CUDA(cudaEventDestroy(start));
    CUDA(cudaEventDestroy(stop));
[% endblock %]
