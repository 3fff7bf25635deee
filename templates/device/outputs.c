[% for t in outputs %]
    [[ api.download(t.name, "device." ~ t.name, "sizeof " ~ t.name) ]]
[% endfor %]
    [[ api.finish() ]]
