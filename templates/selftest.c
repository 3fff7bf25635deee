[% if has_reference %]
/* [[ name ]]_selftest.c: runs [[ name ]] on an input and compares with the outputs that a reference evaluation gave when this
 * folder was written. Exit code 0: right, and the same twice.
[% else %]
/* [[ name ]]_selftest.c: runs [[ name ]] on an input. There is no reference to compare with:
 * [[ no_reference ]].
 * Exit code 0: the outputs are the same twice.
[% endif %]
 *
 * [[ stamp ]]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

[% block headers %]
[% endblock %]
#include "[[ name ]].h"
[% for h in compare_headers %]
#include "[[ h ]]"
[% endfor %]

/* [[ name ]]_selftest_data: the inputs[% if has_reference %], then the expected outputs[% endif %], each at a multiple of 64 bytes. */
extern const unsigned char [[ "*const " + name + "_selftest_data" if weights == "array" else name + "_selftest_data[]" ]];

[% if has_reference %]
[% for c in compared %]
/* Whether an output is wrong: by more than [[ c.tolerance ]] of its largest magnitude. */
static int compare_[[ c.dtype ]](const char *name, const [[ c.ctype ]] *got, const [[ c.ctype ]] *want, size_t count)
{
    double largest = 0.0, error = 0.0;
    int bad = 0;
    for (size_t i = 0; i < count; ++i) {
        const double a = (double)[[ c.widened ]](got[i]), b = (double)[[ c.widened ]](want[i]);
        if (fabs(b) > largest && fabs(b) <= 1e300) largest = fabs(b);
        if (a != b && !(a != a && b != b)) {
            if (fabs(a - b) > error) error = fabs(a - b);
            if (!(fabs(a - b) <= 1e300)) bad = 1; /* NaN or infinity on one side only */
        }
    }
    bad = bad || error > [[ c.tolerance ]] * largest;
    printf("%s: max error %.3g of %.3g: %s\n", name, error, largest, bad ? "WRONG" : "ok");
    return bad;
}
[% endfor %]

[% endif %]
[% block helpers %]
[% endblock %]
[% block main %]
[% include "reader.c" %]
int main(void)
[% endblock %]
{
[% if dims %]
    enum { [[ dim_enum ]] };
[% endif %]
[% block memory %]
[% include "arena.c" %]
[% for t in outputs %]
    static [[ t.ctype ]] [[ t.name ]][[ "[" ]][[ t.example_size ]]], [[ t.name ]]_again[[ "[" ]][[ t.example_size ]]];
[% endfor %]
[% endblock %]
[% for d in found %]
    int64_t [[ d.pointer ]];
[% endfor %]
    [[ name ]] *net;
    ingot_status status;
    int bad = 0;
[% block runs %]
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
    FILE *file = fopen("[[ name ]]_weights.bin", "rb");
    if (weights_block == NULL || file == NULL || fread(weights, 1, [[ upper ]]_WEIGHTS_BYTES, file) != [[ upper ]]_WEIGHTS_BYTES) {
        fprintf(stderr, "cannot read [[ name ]]_weights.bin\n");
        return 1;
    }
    fclose(file);
    if (status == INGOT_OK) status = [[ name ]]_set_weights(net, weights, [[ upper ]]_WEIGHTS_BYTES);
[% endif %]
[% for t in inputs %]
[% if t.const %]
    const [[ t.ctype ]] *const [[ t.name ]] = (const void *)([[ name ]]_selftest_data + [[ t.test_offset ]]);
[% else %]
    static [[ t.ctype ]] [[ t.name ]][[ "[" ]][[ t.example_size ]]]; /* a run writes to it */
    memcpy([[ t.name ]], [[ name ]]_selftest_data + [[ t.test_offset ]], sizeof [[ t.name ]]);
[% endif %]
[% endfor %]
    if (status == INGOT_OK) status = [[ name ]]_run([[ run_arguments ]]);
    if (status == INGOT_OK) status = [[ name ]]_run([[ run_arguments_again ]]);
[% endblock %]
[% block status %]
    if (status != INGOT_OK) {
        fprintf(stderr, "[[ name ]]: %s\n", ingot_status_str(status));
        return 1;
    }
[% endblock %]
[% for t in outputs %]
[% if has_reference %]
    bad |= compare_[[ t.dtype ]]("[[ t.name ]]", [[ t.name ]], (const void *)([[ name ]]_selftest_data + [[ t.test_offset ]]), [[ t.test_size ]]);
[% endif %]
    if (memcmp([[ t.name ]], [[ t.name ]]_again, sizeof [[ t.name ]]) != 0) {
        printf("[[ t.name ]]: two runs differ\n");
        bad = 1;
    }
[% endfor %]
[% block release %]
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
    return bad;
}
[% block end %]
[% endblock %]
