/* Runs two networks of one program, first and second, in turns; C and C++. */
#include <stdio.h>
#include <string.h>

#include "first.h"
#include "second.h"

INGOT_ALIGNED(FIRST_ARENA_ALIGN) static unsigned char arena_1[FIRST_ARENA_BYTES];
INGOT_ALIGNED(SECOND_ARENA_ALIGN) static unsigned char arena_2[SECOND_ARENA_BYTES];
static float x[IN], y_1[OUT], y_2[OUT];

int main(void)
{
    first *net_1;
    second *net_2;
    size_t differ = 0;
    for (size_t i = 0; i < IN; ++i) x[i] = (float)(i % 17) / 17.0f;
    if (first_init(&net_1, arena_1, sizeof arena_1) != INGOT_OK) return 1;
    if (second_init(&net_2, arena_2, sizeof arena_2) != INGOT_OK) return 2;
    for (int n = 0; n < 20; ++n) {
        memset(y_1, 0, sizeof y_1);
        memset(y_2, 255, sizeof y_2);
        if (first_run(net_1, x, y_1) != INGOT_OK || second_run(net_2, x, y_2) != INGOT_OK) return 3;
        for (size_t i = 0; i < OUT; ++i) differ += y_1[i] != y_2[i];
    }
    puts(ingot_status_str(INGOT_OK));
    return differ == 0 ? 0 : 4;
}
