#if defined(INGOT_CLOCK_HZ) && (defined(__riscv) || (defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'))
/* The cycles of a core, of which INGOT_CLOCK_HZ are a second, by a counter of 32 bits that is read often enough. */
static double now(void)
{
    static uint32_t before;
    static double cycles;
#if defined(__riscv)
    unsigned long read;
    __asm__ volatile(".option push\n\t.option arch, +zicsr\n\trdcycle %0\n\t.option pop" : "=r"(read));
    const uint32_t count = (uint32_t)read;
#else /* DWT of Cortex-M3 and later: DEMCR.TRCENA, CTRL.CYCCNTENA, CYCCNT */
    *(volatile uint32_t *)0xE000EDFCu |= 1u << 24;
    *(volatile uint32_t *)0xE0001000u |= 1u;
    const uint32_t count = *(volatile uint32_t *)0xE0001004u;
#endif
    cycles += (double)(uint32_t)(count - before);
    before = count;
    return cycles / (double)INGOT_CLOCK_HZ;
}
#else
static double now(void)
{
#if defined(__unix__) || defined(__APPLE__) || defined(__wasi__)
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#else
    return (double)clock() / CLOCKS_PER_SEC;
#endif
}
#endif
