[% for h in system_headers %]
#include <[[ h ]]>
[% endfor %]
[% if system_headers %]

[% endif %]
[% for h in headers %]
#include "[[ h ]]"
[% endfor %]
[% for source in imports %]

[[ source ]]
[% endfor %]
