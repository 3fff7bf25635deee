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
[[ "INGOT_CODE " if single and places_code ]][[ k.signature ]]
[[ k.body -]]
[% endfor %]
