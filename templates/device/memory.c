    INGOT_ALIGNED([[ upper ]]_HOST_ALIGN) static unsigned char host[ [[- upper ]]_HOST_BYTES];
    const size_t arena_bytes = [[ "(size_t)" ~ name ~ "_arena_bytes(" ~ dims|join(", ") ~ ")" if dims else upper ~ "_ARENA_BYTES" ]] + 1u; /* which may be 0 */
    struct { /* [[ lies ]] */
[% for t in inputs + outputs %]
        [[ t.ctype ]] *[[ t.name ]];
[% endfor %]
    } device;
    void *arena;
