/* A C program that calls exported functions: correct calls, and one of every kind of refusal. */
#include <stdio.h>
#include <string.h>

#ifdef MODULE_SOURCE
#include MODULE_SOURCE
#else
#include "cases.h"
#endif

static ingot_arg args[4];
static ingot_error error;

static void say(const char *what, ingot_status status)
{
    printf("%s %d %d %s\n", what, (int)status, (int)error.argument, status == INGOT_OK ? "" : error.text);
    memset(&error, 0, sizeof error);
}

int main(void)
{
    float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {10, 20, 30, 40, 50, 60}, c[6] = {0};
    int64_t six[] = {6}, five[] = {5}, two_by_three[] = {2, 3}, huge[] = {INT64_C(1) << 40}, back[] = {-1};
    ingot_tensor ta = ingot_tensor_of(a, INGOT_FLOAT32, 1, six), tb = ingot_tensor_of(b, INGOT_FLOAT32, 1, six);
    ingot_tensor tc = ingot_tensor_of(c, INGOT_FLOAT32, 1, six), bad;
    INGOT_ALIGNED(64) unsigned char workspace[64];

    args[0] = ingot_arg_tensor(&ta);
    args[1] = ingot_arg_tensor(&tb);
    args[2] = ingot_arg_tensor(&tc);
    say("add", vector_add(args, 3, NULL, 0, &error));
    printf("sum %g %g\n", (double)c[0], (double)c[5]);
    say("quiet", vector_add(args, 2, NULL, 0, NULL));
    say("count", vector_add(args, 2, NULL, 0, &error));
    say("no-args", vector_add(NULL, 3, NULL, 0, &error));
    args[2] = ingot_arg_tensor(NULL);
    say("null", vector_add(args, 3, NULL, 0, &error));
    bad = ingot_tensor_of(NULL, INGOT_FLOAT32, 1, six);
    args[2] = ingot_arg_tensor(&bad);
    say("null-data", vector_add(args, 3, NULL, 0, &error));
    bad = ingot_tensor_of(c, INGOT_FLOAT32, 1, NULL);
    say("null-shape", vector_add(args, 3, NULL, 0, &error));
    bad = ingot_tensor_of(c, INGOT_FLOAT32, 1, five);
    say("shape", vector_add(args, 3, NULL, 0, &error));
    bad = ingot_tensor_of(c, INGOT_FLOAT32, 2, two_by_three);
    say("ndim", vector_add(args, 3, NULL, 0, &error));
    bad = ingot_tensor_of(c, INGOT_BFLOAT16, 1, six);
    say("dtype", vector_add(args, 3, NULL, 0, &error));
    bad = tc;
    bad.type.lanes = 4;
    say("lanes", vector_add(args, 3, NULL, 0, &error));
    bad = tc;
    bad.device.device_type = 2;
    say("device", vector_add(args, 3, NULL, 0, &error));
    bad = tc;
    bad.byte_offset = 2;
    say("offset", vector_add(args, 3, NULL, 0, &error));
    bad = tc;
    bad.strides = back;
    say("strides", vector_add(args, 3, NULL, 0, &error));
    bad = ingot_tensor_of(c, INGOT_FLOAT32, 1, huge);
    say("huge", vector_add(args, 3, NULL, 0, &error));
    args[2] = ingot_arg_int(3);
    say("kind", vector_add(args, 3, NULL, 0, &error));
    args[2] = ingot_arg_tensor(&ta);
    say("overlap", vector_add(args, 3, NULL, 0, &error));

    args[1] = ingot_arg_tensor(&tc);
    printf("bytes %lu %lu\n", (unsigned long)through_memory_workspace_bytes(args, 2),
        (unsigned long)through_memory_workspace_bytes(args, 1));
    say("no-workspace", through_memory(args, 2, NULL, 0, &error));
    say("short-workspace", through_memory(args, 2, workspace, 63, &error));
    say("askew-workspace", through_memory(args, 2, workspace + 1, 1000, &error));
    say("workspace", through_memory(args, 2, workspace, sizeof workspace, &error));
    printf("square %g %g\n", (double)c[0], (double)c[5]);

    args[2] = ingot_arg_real(0.5);
    args[3] = ingot_arg_int(-1);
    say("scaled", scaled(args, 4, NULL, 0, &error));
    printf("half %g %g\n", (double)c[0], (double)c[5]);
    args[3] = ingot_arg_real(1.5);
    say("real", scaled(args, 4, NULL, 0, &error));
    args[3] = ingot_arg_int(INT64_MIN);
    say("range", scaled(args, 4, NULL, 0, &error));
    return 0;
}
