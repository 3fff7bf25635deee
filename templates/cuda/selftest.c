[% extends "device/selftest.c" %]
[% block headers %]
#include <cuda_runtime.h>

[% endblock %]
