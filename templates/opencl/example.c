[% extends "device/example.c" %]
[% block headers %]
#define _POSIX_C_SOURCE 199309L
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

[% endblock %]
[% block timing %]
[% include "opencl/check.c" %]
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

[% endblock %]
[% block timed %]
    for (int repeat = 0; repeat < 10; ++repeat) {
        const double start = now();
        status = [[ name ]]_run([[ run_arguments ]]);
        if (refused(status, net)) return 1;
        OPENCL(clFinish(queue));
        const double seconds = now() - start;
        if (seconds < best) best = seconds;
    }
[% endblock %]
[% block times %]
    printf("best of 10 runs: %.3f ms\n", best * 1e3);
[% endblock %]
