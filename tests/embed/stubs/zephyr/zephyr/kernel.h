/* Zephyr's clock, for this machine. */
#include <stdint.h>
#include <time.h>

static inline uint32_t k_cycle_get_32(void) { return (uint32_t)clock(); }
static inline uint64_t k_cyc_to_us_floor64(uint64_t cycles) { return cycles * 1000000u / CLOCKS_PER_SEC; }
