/* [[ file ]]: one inference with [[ name ]]; prints its answer and how long it took.
 *
 * [[ stamp ]]
 */
[% block headers %]
#include <stdint.h>
#include <stdio.h>
[% endblock %]
[% if arena_on_heap %]
#include <stdlib.h>
[% endif %]

#include "[[ name ]].h"

[% block clock %]
[% endblock %]

/* Returns 0, or 1 where the network says what is wrong. */
static int infer(void)
{
[% if dims %]
    /* The symbolic dimensions of this example. */
    enum { [[ dim_enum ]] };
[% endif %]
[% include "arena.c" %]
[% for t in inputs + outputs %]
    static [[ t.ctype ]] [[ t.name ]][[ "[" ]][[ t.example_size ]]];
[% endfor %]
[% for d in found %]
    int64_t [[ d.pointer ]];
[% endfor %]
    [[ name ]] *net;
    ingot_status status;
[% include "instance.c" %]
    /* Your data belongs here. */
[% for t in inputs %]
    for (size_t i = 0; i < sizeof [[ t.name ]] / sizeof *[[ t.name ]]; ++i) [[ t.name ]][i] = [[ t.made_up ]];
[% endfor %]

    const uint32_t start = microseconds();
    if (status == INGOT_OK) status = [[ name ]]_run([[ run_arguments ]]);
    const uint32_t took = microseconds() - start;
[% block say %]
    if (status != INGOT_OK) {
        printf("[[ name ]]: %s\n", ingot_status_str(status));
        return 1;
    }
[% endblock %]
[% block answer %]
[% include "answer.c" %]
    printf("one run: %lu us\n", (unsigned long)took);
[% endblock %]
    return 0;
}

[% block entry %]
int main(void)
{
    return infer();
}
[% endblock %]
