[% include "includes.c" %]
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
