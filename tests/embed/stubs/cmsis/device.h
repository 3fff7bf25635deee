/* What CMSIS-Core says of the cycle counter of a Cortex-M4. */
#include <stdint.h>

typedef struct { volatile uint32_t CTRL, CYCCNT; } DWT_Type;
typedef struct { volatile uint32_t DHCSR, DCRSR, DCRDR, DEMCR; } CoreDebug_Type;
#define DWT ((DWT_Type *)0xE0001000u)
#define CoreDebug ((CoreDebug_Type *)0xE000EDF0u)
#define CoreDebug_DEMCR_TRCENA_Msk (1u << 24)
#define DWT_CTRL_CYCCNTENA_Msk 1u
extern uint32_t SystemCoreClock;
