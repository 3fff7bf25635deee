[% for t in inputs %]
    static [[ t.ctype ]] [[ t.name ]][[ "[" ]][[ t.example_size ]]];
[% endfor %]
[% for t in outputs %]
    static [[ t.ctype ]] [[ t.name ]][[ "[" ]][[ t.example_size ]]], [[ t.name ]]_again[[ "[" ]][[ t.example_size ]]];
[% endfor %]
