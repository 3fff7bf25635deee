[% extends "selftest.c" %]
[% import folder ~ "calls.c" as api with context %]
[% block helpers %]
[% include folder ~ "check.c" %]
[% endblock %]
[% block memory %]
[% include folder ~ "memory.c" %]
[% for t in inputs %]
    static [[ t.ctype ]] [[ t.name ]][[ "[" ]][[ t.example_size ]]];
[% endfor %]
[% for t in outputs %]
    static [[ t.ctype ]] [[ t.name ]][[ "[" ]][[ t.example_size ]]], [[ t.name ]]_again[[ "[" ]][[ t.example_size ]]];
[% endfor %]
[% endblock %]
[% block runs %]
[% include "device/instance.c" %]
[% for t in inputs %]
    memcpy([[ t.name ]], [[ name ]]_selftest_data + [[ t.test_offset ]], sizeof [[ t.name ]]);
    [[ api.upload("device." ~ t.name, t.name, "sizeof " ~ t.name) ]]
[% endfor %]

    status = [[ name ]]_run([[ run_arguments ]]);
    if (refused(status, net)) return 1;
[% include "device/outputs.c" %]

    /* The second run[[ " is that of a graph" if captures else " finds what the first one left" ]]. */
[% for t in inputs if not t.const %]
    [[ api.upload("device." ~ t.name, t.name, "sizeof " ~ t.name) ]]
[% endfor %]
[% if captures %]
[% include "cuda/graph.c" %]
    CUDA(cudaGraphLaunch(executable, stream));
[% else %]
    status = [[ name ]]_run([[ run_arguments ]]);
    if (refused(status, net)) return 1;
[% endif %]
[% for t in outputs %]
    [[ api.download(t.name ~ "_again", "device." ~ t.name, "sizeof " ~ t.name) ]]
[% endfor %]
    [[ api.finish() ]]
[% endblock %]
[% block status %]
[% endblock %]
[% block release %]
[% include "device/release.c" %]
[% endblock %]
