[% for h in system_headers %]
#include <[[ h ]]>
[% endfor %]
[% if system_headers %]

[% endif %]
[% for h in headers %]
#include "[[ h ]]"
[% endfor %]
[% for p in packed %]
[[ "\n" if loop.first ]]
[[ p.declaration ]]; /* [[ p.name ]] */
[% endfor %]
[% for source in imports %]

[[ source ]]
[% endfor %]
