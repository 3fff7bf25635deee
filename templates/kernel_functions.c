[% for h in system_headers %]
#include <[[ h ]]>
[% endfor %]
[% if system_headers %]

[% endif %]
#include "[[ "ingot.h" if single else name + "_kernels.h" ]]"
[% for h in headers %]
#include "[[ h ]]"
[% endfor %]
[% for source in imports %]

[[ source ]]
[% endfor %]
[% if single %]

/* ==== kernels ================================================================================================== */
[% endif %]
[% for k in kernels %]
[% for tile in k.tiles %]

/* A tile of [[ k.function.name ]]. */
[[ tile -]]
[% endfor %]

[[ k.comment ]]
[[ k.signature ]]
[[ k.body -]]
[% endfor %]
