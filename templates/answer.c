[% for t in outputs %]
    printf("[[ t.name ]]:");
[% if t.count %]
    for (size_t i = 0; i < [[ t.count ]] && i < 8; ++i) printf(" %g", (double)[[ t.name ]][i]);
[% endif %]
    printf("\n");
[% endfor %]
