/* board.c: starts a program on a Cortex-M without a system: vectors, memory, FPU, a clock, and semihosting, by which a
 * debugger or QEMU gives arguments, files and an end. For the example and the self-test; the network needs none of it.
 *
 * [[ stamp ]]
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define CPACR REGISTER(0xE000ED88u) /* bits 20 to 23: FPU and vectors */
#define SYST_CSR REGISTER(0xE000E010u)
#define SYST_RVR REGISTER(0xE000E014u)
#define SYST_CVR REGISTER(0xE000E018u)
#define SYST_MOST 0xFFFFFFu
#define SYS_WRITE0 0x04
#define SYS_GET_CMDLINE 0x15
#define SYS_EXIT_EXTENDED 0x20

double board_seconds(void);
void board_start(void);
void board_fault(void);
void board_tick(void);
int main(int argc, char **argv);
extern void initialise_monitor_handles(void); /* of newlib's rdimon: stdin, stdout, stderr */
extern unsigned char board_data[], board_data_end[], board_bss[], board_bss_end[], board_stack_end[];
extern const unsigned char board_data_load[];

static volatile uint32_t wraps;
enum { MOST_WORDS = 256 };
static char line[16 * MOST_WORDS];
static char *arguments[MOST_WORDS + 1];

static int32_t semihost(int32_t operation, const void *argument)
{
    register int32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void end(uint32_t code)
{
    const uint32_t block[2] = {0x20026u /* the program ended by itself */, code};
    for (;;) semihost(SYS_EXIT_EXTENDED, block);
}

/* Seconds by SysTick, which counts the core's cycles from [[ board.hz ]] a second on. Under QEMU's -icount shift=0 each
 * instruction takes a nanosecond, in steps of [[ 10**9 // board.hz ]]. */
double board_seconds(void)
{
    uint32_t before, count;
    do {
        before = wraps;
        count = SYST_CVR;
    } while (before != wraps);
    return ((double)before * (double)(SYST_MOST + 1u) + (double)(SYST_MOST - count)) / [[ board.hz ]].0;
}

void board_tick(void) { ++wraps; }

void board_fault(void)
{
    semihost(SYS_WRITE0, "fault\n");
    end(99);
}

/* The words of the command line. */
static int split(void)
{
    struct { char *text; uint32_t bytes; } block = {line, sizeof line};
    int count = 0;
    if (semihost(SYS_GET_CMDLINE, &block) != 0) return 0;
    for (char *word = strtok(line, " "); word != NULL && count < MOST_WORDS; word = strtok(NULL, " "))
        arguments[count++] = word;
    return count;
}

void board_start(void)
{
#if defined(__ARM_FP)
    CPACR |= 0xFu << 20;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
    memcpy(board_data, board_data_load, (size_t)(board_data_end - board_data));
    memset(board_bss, 0, (size_t)(board_bss_end - board_bss));
    SYST_RVR = SYST_MOST;
    SYST_CVR = 0;
    SYST_CSR = 7; /* on, with an interrupt at each wrap, by the core's clock */
    initialise_monitor_handles();
    const int count = split();
    const int code = main(count, arguments);
    fflush(NULL);
    end((uint32_t)code);
}

/* Where the core begins: its stack, then its exceptions from reset to SysTick. */
struct board_vectors {
    unsigned char *stack;
    void (*exceptions[15])(void);
};
extern const struct board_vectors board_vectors;
__attribute__((section(".vectors"), used)) const struct board_vectors board_vectors = {
    board_stack_end,
    {board_start, board_fault, board_fault, board_fault, board_fault, board_fault, board_fault, 0, 0, 0, board_fault, 0, 0,
     board_fault, board_tick}};
