[% extends "packages/app.c" %]
[% block headers %]
#include <stdint.h>
#include <stdio.h>

#include <zephyr/kernel.h>
[% endblock %]
[% block clock %]
static uint32_t microseconds(void)
{
    return (uint32_t)k_cyc_to_us_floor64(k_cycle_get_32());
}
[% endblock %]
