[% include "device/memory.c" %]
    cl_context context;
    cl_command_queue queue;
