/* two_threads.c: two instances on two threads give what one instance gives, bit for bit. */
#include "net.h"

#include <pthread.h>

enum { RUNS = 20 };

typedef struct job {
    net_type *net;
    const float *x;
    float *y;
} job;

static void *run_often(void *argument)
{
    job *mine = argument;
    for (int i = 0; i < RUNS; ++i) {
        memset(mine->y, 0xff, (size_t)OUTPUT_SIZE * sizeof(float));
        CHECK(net_run(mine->net, mine->x, mine->y) == INGOT_OK);
    }
    return NULL;
}

int main(void)
{
    float *expected[2];
    job jobs[2];
    pthread_t threads[2];
    net_type *one = new_instance();
    for (unsigned i = 0; i < 2; ++i) {
        jobs[i].net = new_instance();
        jobs[i].x = made_up_input(i + 1, 0);
        jobs[i].y = allocate((size_t)OUTPUT_SIZE * sizeof(float), 64, 0);
        expected[i] = allocate((size_t)OUTPUT_SIZE * sizeof(float), 64, 0);
        CHECK(net_run(one, jobs[i].x, expected[i]) == INGOT_OK);
    }
    CHECK(memcmp(expected[0], expected[1], (size_t)OUTPUT_SIZE * sizeof(float)) != 0);
    for (int i = 0; i < 2; ++i) CHECK(pthread_create(&threads[i], NULL, run_often, &jobs[i]) == 0);
    for (int i = 0; i < 2; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 2; ++i) CHECK(memcmp(jobs[i].y, expected[i], (size_t)OUTPUT_SIZE * sizeof(float)) == 0);
    return 0;
}
