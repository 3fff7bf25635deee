[% extends "packages/app.c" %]
[% block headers %]
#include <stdint.h>
#include <stdio.h>
#include <time.h>
[% endblock %]
[% block clock %]
static uint32_t microseconds(void)
{
    return (uint32_t)((double)clock() * (1e6 / CLOCKS_PER_SEC));
}
[% endblock %]
