[% extends "selftest.c" %]
[% block main %]
[% include "reader.c" %]
/* Whether results for one target are wrong. */
static int test(int32_t target)
[% endblock %]
[% block end %]

int main(void)
{
    int bad = 0, tested = 0;
    for (int32_t target = 0; target < [[ upper ]]_TARGETS; ++target) {
        const int runs = [[ name ]]_runs_target(target);
        printf("%s%s\n", [[ name ]]_target_names[target], runs ? ":" : ": not on this processor, or not built");
        if (runs) bad |= test(target);
        tested += runs;
    }
    if (tested == 0) fprintf(stderr, "[[ name ]]: %s\n", ingot_status_str(INGOT_ERR_TARGET));
    return bad || tested == 0;
}
[% endblock %]
