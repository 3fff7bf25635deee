/* profile.c: a hook for NAME_set_profile that keeps the time of every kernel call. Needs a POSIX clock. */
#define _POSIX_C_SOURCE 199309L
#include <time.h>

#include "ingot.h"

/* What ingot_keep_time takes as `user`: seconds[i] becomes the time of call i in the last run. */
typedef struct ingot_call_times {
    double start; /* of the call that runs */
    double *seconds;
} ingot_call_times;

void ingot_keep_time(void *user, int32_t call);

void ingot_keep_time(void *user, int32_t call)
{
    ingot_call_times *times = user;
    struct timespec t;
    double now;
    clock_gettime(CLOCK_MONOTONIC, &t);
    now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    if (call > 0) times->seconds[call - 1] = now - times->start;
    times->start = now;
}
