[% extends "packages/app.c" %]
[% block headers %]
#include <stdint.h>
#include <stdio.h>

#include "esp_timer.h"
[% endblock %]
[% block clock %]
static uint32_t microseconds(void)
{
    return (uint32_t)esp_timer_get_time();
}
[% endblock %]
[% block entry %]
void app_main(void);

void app_main(void)
{
    (void)infer();
}
[% endblock %]
