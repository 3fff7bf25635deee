[% extends "packages/app.c" %]
[% block clock %]
#include "RTE_Components.h"
#include CMSIS_device_header

/* By the cycle counter, which Cortex-M3 and later have, for as long as its 32 bits count. */
static uint32_t microseconds(void)
{
    CoreDebug->DEMCR |= CoreDebug_DEMCR_TRCENA_Msk;
    DWT->CTRL |= DWT_CTRL_CYCCNTENA_Msk;
    return DWT->CYCCNT / (SystemCoreClock / 1000000u);
}
[% endblock %]
