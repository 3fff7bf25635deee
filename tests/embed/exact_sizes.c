/* exact_sizes.c: arena, weights, input and output exactly as large as the header says, input and output at any multiple
 * of a float; for a build with sanitizers. Prints the output. */
#include "net.h"

int main(void)
{
    const size_t bytes = (size_t)OUTPUT_SIZE * sizeof(float);
    net_type *net = new_instance();
    float *first = allocate(bytes, 64, 0);
    for (size_t skew = 0; skew < 64; skew += 20) {
        float *y = allocate(bytes, 64, skew);
        CHECK(net_run(net, made_up_input(0, skew), y) == INGOT_OK);
        if (skew == 0) memcpy(first, y, bytes);
        CHECK(memcmp(first, y, bytes) == 0);
    }
    for (size_t i = 0; i < (size_t)OUTPUT_SIZE; ++i) printf("%.9g\n", (double)first[i]);
    return 0;
}
