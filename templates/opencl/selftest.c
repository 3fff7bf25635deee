[% extends "device/selftest.c" %]
[% block headers %]
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>

[% endblock %]
