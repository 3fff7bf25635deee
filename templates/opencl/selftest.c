[% extends "selftest.c" %]
[% block headers %]
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>

[% endblock %]
[% block helpers %]
[% include "opencl/check.c" %]
[% endblock %]
[% block memory %]
[% include "opencl/memory.c" %]
[% include "device/tensors.c" %]
[% endblock %]
[% block runs %]
[% include "opencl/instance.c" %]
[% for t in inputs %]
    memcpy([[ t.name ]], [[ name ]]_selftest_data + [[ t.test_offset ]], sizeof [[ t.name ]]);
[% endfor %]
    for (int again = 0; again < 2; ++again) {
[% for t in inputs %]
        OPENCL(clEnqueueSVMMemcpy(queue, CL_TRUE, device.[[ t.name ]], [[ t.name ]], sizeof [[ t.name ]], 0, NULL, NULL));
[% endfor %]
        status = [[ name ]]_run([[ run_arguments ]]);
        if (refused(status, net)) return 1;
[% for t in outputs %]
        OPENCL(clEnqueueSVMMemcpy(queue, CL_TRUE, again ? [[ t.name ]]_again : [[ t.name ]], device.[[ t.name ]], sizeof [[ t.name ]], 0, NULL, NULL));
[% endfor %]
    }
    OPENCL(clFinish(queue));
[% endblock %]
[% block status %]
[% endblock %]
[% block release %]
    [[ name ]]_release(net);
    OPENCL(clReleaseCommandQueue(queue));
    OPENCL(clReleaseContext(context));
[% endblock %]
