/* ingot_dispatch.h: what the processor can do that a program runs on, as words of bits. */
#ifndef INGOT_DISPATCH_H
#define INGOT_DISPATCH_H

#include <stdint.h>

/* x86: of cpuid's leaf 1 ECX, of leaf 7 EBX, ECX and EDX, of its subleaf 1 EAX; then the registers that the system
 * saves (XCR0). Arm under Linux: AT_HWCAP, AT_HWCAP2. Others: none. */
#define INGOT_FEATURE_WORDS 6

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

static void ingot_read_features(uint32_t has[INGOT_FEATURE_WORDS])
{
    const uint32_t osxsave = UINT32_C(1) << 27;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d)) has[0] = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        has[1] = b;
        has[2] = c;
        has[3] = d;
        if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) has[4] = a;
    }
    if (has[0] & osxsave) __asm__ volatile("xgetbv" : "=a"(has[5]), "=d"(d) : "c"(0));
}
#elif defined(__linux__) && (defined(__aarch64__) || defined(__arm__))
#include <sys/auxv.h>

static void ingot_read_features(uint32_t has[INGOT_FEATURE_WORDS])
{
    has[0] = (uint32_t)getauxval(AT_HWCAP);
    has[1] = (uint32_t)getauxval(AT_HWCAP2);
}
#else
static void ingot_read_features(uint32_t has[INGOT_FEATURE_WORDS]) { (void)has; }
#endif

/* Whether the processor has all features whose bits are set in `needs`. */
static int ingot_has_features(const uint32_t needs[INGOT_FEATURE_WORDS])
{
    uint32_t has[INGOT_FEATURE_WORDS] = {0}, missing = 0;
    ingot_read_features(has);
    for (int i = 0; i < INGOT_FEATURE_WORDS; ++i) missing |= needs[i] & ~has[i];
    return missing == 0;
}

#endif /* INGOT_DISPATCH_H */
