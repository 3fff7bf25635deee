/* indices.c: embedding_net with indices of its table of 11 rows, in and out of range. */
#define _POSIX_C_SOURCE 200112L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "embedding_net.h"

INGOT_ALIGNED(EMBEDDING_NET_ARENA_ALIGN) static unsigned char arena[EMBEDDING_NET_ARENA_BYTES];

int main(void)
{
    static const int64_t good[] = {0, 10, 5, -1, -11}, bad[] = {11, -12, INT64_MAX, INT64_MIN, (int64_t)1 << 32};
    static float position[35], rows[70], sum[70];
    int64_t tokens[EMBEDDING_NET_TOKENS_SIZE] = {0};
    embedding_net *net;
    if (embedding_net_init(&net, arena, sizeof arena) != INGOT_OK) return 1;
    for (int place = 0; place < EMBEDDING_NET_TOKENS_SIZE; ++place) {
        for (int i = 0; i < 5; ++i) {
            tokens[place] = good[i];
            if (embedding_net_run(net, tokens, position, rows, sum) != INGOT_OK) return 2;
            tokens[place] = bad[i];
            if (embedding_net_run(net, tokens, position, rows, sum) != INGOT_ERR_INDEX) return 3;
        }
        tokens[place] = 0;
    }
    tokens[0] = -1;
    tokens[1] = 10;
    if (embedding_net_run(net, tokens, position, rows, sum) != INGOT_OK) return 4;
    for (int i = 0; i < 7; ++i) /* compared as numbers; no NaN among them */
        if (rows[i] < rows[7 + i] || rows[i] > rows[7 + i]) return 5;
    return 0;
}
