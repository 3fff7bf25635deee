/* main.c: a decoder writes tokens, one after the other.
 *
 *   ./decode 8 3 1 4 1 5     eight tokens after the prompt 3 1 4 1 5
 *
 * The keys and values of all tokens so far stay in the buffers `cache`, where each run adds those of its own tokens: no
 * run copies them. The first run takes the whole prompt, each further one the token that the last one said.
 */
#include <stdio.h>
#include <stdlib.h>

#include "decoder.h"

enum { ROOM = 64, VOCABULARY = 96, CACHES = 4, CACHE = DECODER_PAST_KEY_VALUES_0_KEY_SIZE };

static float cache[CACHES][CACHE], logits[ROOM * VOCABULARY];
static int64_t ids[ROOM], mask[ROOM];

/* Run on `count` tokens in `ids`, after `past` others. Return the next token, or -1. */
static int64_t next_token(decoder *net, int64_t past, int64_t count)
{
    ingot_status status = decoder_run(net, count, past, ids, mask, cache[0], cache[1], cache[2], cache[3], logits);
    const float *const last = logits + (count - 1) * VOCABULARY;
    int64_t best = 0;
    if (status != INGOT_OK) {
        fprintf(stderr, "%s\n", ingot_status_str(status));
        return -1;
    }
    for (int64_t i = 1; i < VOCABULARY; ++i)
        if (last[i] > last[best]) best = i;
    return best;
}

int main(int argc, char **argv)
{
    const int64_t wanted = argc > 1 ? atoi(argv[1]) : 0, prompt = argc - 2;
    int64_t past = 0, count = prompt;
    decoder *net;
    size_t bytes;
    void *block;
    ingot_status status;

    if (wanted < 1 || prompt < 1 || prompt + wanted - 1 > ROOM) {
        fprintf(stderr, "usage: %s COUNT TOKEN ...: up to %d tokens in all\n", argv[0], ROOM + 1);
        return 2;
    }
    for (int64_t i = 0; i < prompt; ++i) ids[i] = atoi(argv[2 + i]);
    for (int i = 0; i < ROOM; ++i) mask[i] = 1;

    /* One arena serves all runs: the largest are the prompt, and a token after all others. */
    bytes = (size_t)decoder_arena_bytes(prompt, 0);
    if (bytes < decoder_arena_bytes(1, ROOM)) bytes = (size_t)decoder_arena_bytes(1, ROOM);
    block = malloc(bytes + DECODER_ARENA_ALIGN);
    if (block == NULL) return 1;
    status = decoder_init(&net, (unsigned char *)block + (DECODER_ARENA_ALIGN - (uintptr_t)block % DECODER_ARENA_ALIGN),
                          bytes);
    if (status != INGOT_OK) {
        fprintf(stderr, "%s\n", ingot_status_str(status));
        return 1;
    }
    for (int64_t i = 0; i < wanted; ++i) {
        const int64_t token = next_token(net, past, count);
        if (token < 0) return 1;
        printf("%s%d", i ? " " : "", (int)token);
        past += count;
        count = 1;
        ids[0] = token;
    }
    printf("\n");
    free(block);
    return 0;
}
