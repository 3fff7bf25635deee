/* What the parts of the emulator share: the threads of the block that runs, and how they wait. */
#pragma once
#include <setjmp.h>
#include <stdint.h>
#include <ucontext.h>
#include <functional>
#include <string>
#include <vector>

namespace emu {
enum Order { UP, DOWN, SHUFFLED };
struct Policy { Order order; unsigned seed; bool late; };  /* late: asynchronous copies arrive when they are waited for */
extern Policy policy;
struct Copy { void *to; std::vector<unsigned char> bytes; };
struct Thread {
    jmp_buf at;
    ucontext_t first;
    std::vector<unsigned char> stack;
    unsigned char *slot;
    bool started, done;
    std::string waits;                      /* for what; empty: it can run */
    std::vector<std::vector<Copy>> groups;  /* asynchronous copies, the last group still open */
    unsigned arrived[2];                    /* how often it met its warp */
};
extern std::vector<Thread> threads;
extern unsigned current, live;
void wait_for(const std::string &what);     /* until somebody clears `waits` */
void fail(const std::string &what);         /* the launch ends with an error */
void run_block(const struct Kernel *kernel, void *const *args);
extern std::string failure;
}
