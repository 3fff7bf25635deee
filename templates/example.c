/* [[ name ]]_example.c: one inference with [[ name ]].
 *
 *   ./example                        on made-up inputs
 *   ./example [[ inputs|map(attribute="name")|join(".bin ") ]].bin [[ outputs|map(attribute="name")|join(".bin ") ]].bin
 *                                    raw tensors from files, results to files
 *
 * [[ stamp ]]
 */
[% block headers %]
[% if not board %]
#define _POSIX_C_SOURCE 199309L
[% endif %]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
[% if not board %]
#include <time.h>
[% endif %]

[% endblock %]
#include "[[ name ]].h"

static int transfer(const char *path, const char *mode, void *data, size_t bytes)
{
    FILE *file = fopen(path, mode);
    size_t done = 0;
    if (file != NULL) {
        done = mode[0] == 'r' ? fread(data, 1, bytes, file) : fwrite(data, 1, bytes, file);
        fclose(file);
    }
    if (done != bytes) fprintf(stderr, "%s: %lu of %lu bytes\n", path, (unsigned long)done, (unsigned long)bytes);
    return done == bytes;
}

[% block timing %]
[% if board and board.family %]
double board_seconds(void); /* board.c */
static double now(void) { return board_seconds(); }
[% elif board %]
/* The cycles of a core, a thousand million a second: instructions under QEMU's -icount shift=0. */
static double now(void)
{
    uint32_t high, low, again;
    do {
        __asm__ volatile(".option push\n\t.option arch, +zicsr\n\trdcycleh %0\n\trdcycle %1\n\trdcycleh %2\n\t"
                         ".option pop" : "=r"(high), "=r"(low), "=r"(again));
    } while (high != again);
    return ((double)high * 4294967296.0 + (double)low) * 1e-9;
}
[% else %]
[% include "clock.c" %]
[% endif %]

#if defined(INGOT_PROFILE)
/* Times of kernel calls: the hook is called before each of them, and after the last one. */
enum { CALLS = [[ call_names|length ]] };
struct times { double start, least[CALLS + 1]; };

static void keep_time(void *user, int32_t call)
{
    struct times *const t = user;
    const double end = now();
    if (call > 0 && end - t->start < t->least[call - 1]) t->least[call - 1] = end - t->start;
    t->start = now();
}
#endif

[% endblock %]
[% include "reader.c" %]
int main(int argc, char **argv)
{
[% if dims %]
    /* The symbolic dimensions of this example. */
    enum { [[ dim_enum ]] };
[% endif %]
[% block memory %]
[% include "arena.c" %]
[% for t in inputs + outputs %]
    static [[ t.ctype ]] [[ t.name ]][[ "[" ]][[ t.example_size ]]];
[% endfor %]
[% endblock %]
[% for d in found %]
    int64_t [[ d.pointer ]];
[% endfor %]
    [[ name ]] *net;
    ingot_status status;
    double best = 1e30;
[% block instance %]
[% include "instance.c" %]
[% if weights == "stream" %]
    FILE *const weights = fopen("[[ name ]]_weights.bin", "rb");
    if (weights == NULL) {
        fprintf(stderr, "cannot read [[ name ]]_weights.bin\n");
        return 1;
    }
    if (status == INGOT_OK) status = [[ name ]]_set_reader(net, read_weights, weights);
[% endif %]
[% if weights == "file" %]
    void *weights_block = malloc([[ upper ]]_WEIGHTS_BYTES + 64u);
    void *weights = (void *)(((uintptr_t)weights_block + 63u) / 64u * 64u);
    if (weights_block == NULL || !transfer("[[ name ]]_weights.bin", "rb", weights, [[ upper ]]_WEIGHTS_BYTES)) return 1;
    if (status == INGOT_OK) status = [[ name ]]_set_weights(net, weights, [[ upper ]]_WEIGHTS_BYTES);
[% endif %]
[% endblock %]
    if (argc == 1 + [[ inputs|length ]] + [[ outputs|length ]]) {
[% for t in inputs %]
        if (!transfer(argv[[ "[" ]][[ loop.index ]]], "rb", [[ t.name ]], [[ t.bytes ]])) return 1;
[% endfor %]
    } else {
[% for t in inputs %]
        for (size_t i = 0; i < sizeof [[ t.name ]] / sizeof *[[ t.name ]]; ++i) [[ t.name ]][i] = [[ t.made_up ]];
[% endfor %]
    }

[% block runs %]
#if defined(INGOT_PROFILE)
    static struct times times;
    for (int i = 0; i < CALLS; ++i) times.least[i] = 1e30;
    if (status == INGOT_OK) status = [[ name ]]_set_profile(net, keep_time, &times);
#endif
    for (int repeat = 0; repeat < 10 && status == INGOT_OK; ++repeat) {
        const double start = now();
        status = [[ name ]]_run([[ run_arguments ]]);
        const double seconds = now() - start;
        if (seconds < best) best = seconds;
    }
[% endblock %]
[% block status %]
    if (status != INGOT_OK) {
        fprintf(stderr, "[[ name ]]: %s\n", ingot_status_str(status));
        return 1;
    }
[% endblock %]

    if (argc == 1 + [[ inputs|length ]] + [[ outputs|length ]]) {
[% for t in outputs %]
        if (!transfer(argv[[ "[" ]][[ inputs|length + loop.index ]]], "wb", [[ t.name ]], [[ t.bytes ]])) return 1;
[% endfor %]
    }
[% include "answer.c" %]
[% block report %]
    printf("best of 10 runs: %.3f ms\n", best * 1e3);
#if defined(INGOT_PROFILE)
    for (int i = 0; i < CALLS; ++i) printf("%9.4f ms  %s\n", times.least[i] * 1e3, [[ name ]]_call_names[i]);
#endif
[% if arena_on_heap %]
    free(block);
[% endif %]
[% if weights == "stream" %]
    fclose(weights);
[% endif %]
[% if weights == "file" %]
    free(weights_block);
[% endif %]
[% endblock %]
    return 0;
}
