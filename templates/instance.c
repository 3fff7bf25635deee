[% if arena_on_heap %]
    size_t arena_bytes = (size_t)[[ name ]]_arena_bytes[[ "(" + dims|join(", ") + ")" if dims else "_()" ]];
    void *block = malloc(arena_bytes + [[ upper ]]_ARENA_ALIGN);
    void *arena = (void *)(((uintptr_t)block + [[ upper ]]_ARENA_ALIGN - 1) / [[ upper ]]_ARENA_ALIGN * [[ upper ]]_ARENA_ALIGN);
    if (block == NULL) return 1;
    status = [[ name ]]_init[[ "_target" if each_target else "" ]](&net, arena, arena_bytes[[ ", target" if each_target else "" ]]);
[% else %]
    status = [[ name ]]_init[[ "_target" if each_target else "" ]](&net, [[ arena ]], sizeof [[ arena ]][% for m in further %]
, [[ m.name ~ ", sizeof " ~ m.name if m.bytes else "NULL, 0" ]][% endfor %]
[[ ", target" if each_target else "" ]]);
[% endif %]
