/* main.c: which digit is on a picture?
 *
 *   ./digit ../pictures/7.pgm      a plain portable graymap ("P2") of 8 x 8 pixels
 */
#include <stdio.h>

#include "digits.h"

/* The arena and the tensors are static: nothing is allocated while the program runs. */
INGOT_ALIGNED(DIGITS_ARENA_ALIGN) static unsigned char arena[DIGITS_ARENA_BYTES];
static float image[DIGITS_IMAGE_SIZE], scores[DIGITS_SCORES_SIZE];

/* Read a graymap into pixels from 0 to 1. Return 0 unless it has exactly `count` of them. */
static int read_picture(const char *path, float *pixels, size_t count)
{
    FILE *file = fopen(path, "r");
    unsigned width, height, brightest, value;
    size_t n = 0;
    if (file == NULL) return 0;
    if (fscanf(file, "P2 %u %u %u", &width, &height, &brightest) == 3 && brightest > 0
        && (size_t)width * height == count) {
        while (n < count && fscanf(file, "%u", &value) == 1) pixels[n++] = (float)value / (float)brightest;
    }
    fclose(file);
    return n == count;
}

int main(int argc, char **argv)
{
    digits *net;
    size_t best = 0;
    ingot_status status = digits_init(&net, arena, sizeof arena);

    if (argc != 2 || !read_picture(argv[1], image, DIGITS_IMAGE_SIZE)) {
        fprintf(stderr, "usage: %s PICTURE.pgm (P2, 8 x 8 pixels)\n", argv[0]);
        return 2;
    }
    if (status == INGOT_OK) status = digits_run(net, image, scores);
    if (status != INGOT_OK) {
        fprintf(stderr, "%s\n", ingot_status_str(status));
        return 1;
    }
    for (size_t i = 1; i < DIGITS_SCORES_SIZE; ++i)
        if (scores[i] > scores[best]) best = i;
    printf("this is a %lu (%.1f %%)\n", (unsigned long)best, 100.0 * (double)scores[best]);
    return 0;
}
