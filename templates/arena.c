[% if not arena_on_heap %]
[% if further %]
    /* Memories of the board: with INGOT_SECTION_NAME defined, the name of a section in quotes, a linker script puts them
     * where they belong. */
#if defined(INGOT_SECTION_[[ arena.removeprefix("arena_")|upper ]])
    INGOT_SECTION(INGOT_SECTION_[[ arena.removeprefix("arena_")|upper ]])
#endif
[% endif %]
    INGOT_ALIGNED([[ upper ]]_ARENA_ALIGN) static unsigned char [[ arena ]][[ "[" ]][[ upper ]]_ARENA_BYTES];
[% for m in further if m.bytes %]
#if defined(INGOT_SECTION_[[ m.upper ]])
    INGOT_SECTION(INGOT_SECTION_[[ m.upper ]])
#endif
    INGOT_ALIGNED([[ upper ]]_ARENA_ALIGN) static unsigned char [[ m.name ]][[ "[" ]][[ upper ]]_ARENA_[[ m.upper ]]_BYTES];
[% endfor %]
[% endif %]
