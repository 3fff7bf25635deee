/* What the parts of the emulator share: the threads of the block that runs, and how they wait. */
#pragma once
#include <setjmp.h>
#include <stdint.h>
#include <ucontext.h>
#include <functional>
#include <memory>
#include <string>
#include <vector>
#include "cuda_runtime.h"

namespace emu {
enum Order { UP, DOWN, SHUFFLED };
/* late: asynchronous work is done when it is waited for, or nothing else can run; starving: a thread runs only while
 * none before it in the order can, so that threads get as far from one another as the program lets them. */
struct Policy {
    Order order;
    unsigned seed;
    bool late, starving;
};
extern Policy policy;
struct Copy { /* or another asynchronous work of a thread, done by work() */
    unsigned time;
    std::function<void()> work;
};

/* ---- what happened before what ------------------------------------------------------------------------------------
 * Everybody who touches memory is an agent with a time of its own, which grows as it tells others what it did: thread t
 * is agent t, what it does asynchronously is agent n + t, and what arrives at mbarrier k is agent 2 n + k. */
typedef std::vector<unsigned> Clock; /* how far each agent's work is known; beyond its end: not at all */
typedef std::shared_ptr<const Clock> Known;
struct Gathering { /* what those know who meet */
    Clock clock;
    Known last; /* that somebody gave: kept, or another one might have its address */
    Known done;
    void give(); /* the current thread's knowledge */
    void give(unsigned agent, unsigned time);
    void complete();
    void take(); /* what all gave, for one of them */
};
void learn(const Known &known); /* the current thread comes to know that too */
void learn(unsigned agent, unsigned time);

struct Waits {
    enum Kind { NOTHING, BLOCK, NAMED, WARP, MBARRIER } kind;
    uintptr_t on;
};
struct Thread {
    jmp_buf at;
    ucontext_t first;
    std::vector<unsigned char> stack;
    bool started, done;
    Waits waits;
    std::vector<std::vector<Copy>> groups, stores, products; /* asynchronous work, the last group still open */
    Known known, known_at_fence;
    unsigned fenced; /* its time when it ordered its accesses before those of copies of tiles */
    bool wgmma_fenced;
    unsigned time, own_copies;    /* the agent's times: of the thread, of what it does asynchronously */
    unsigned phase;               /* how often it met others */
    std::vector<unsigned> visits; /* how often it came to each site in this phase (traffic.cpp) */
    unsigned visits_phase;
};
extern std::vector<Thread> threads;
extern unsigned current, live, progress;
extern const Kernel *running;
extern const unsigned char *stack_end;       /* of the current thread */
extern unsigned block_number, launch_number; /* that run: of the grid, of the process */
extern bool seen;                            /* whether accesses of this kernel are seen */
void wait_for(Waits what);                   /* until somebody releases those who wait for it */
void release(Waits what);
void fail(const std::string &what); /* the launch ends with an error */
void run_block(const Kernel *kernel, void *const *args);
extern std::string failure;

/* ---- accesses (memory.cpp, races.cpp, traffic.cpp) -------------------------------------------------------------- */
enum Space { SHARED, GLOBAL };
struct Block { /* memory that a kernel may use */
    std::string name;
    uintptr_t start;
    size_t bytes;
};
struct Extent {
    std::string name;
    const unsigned char *at;
    size_t bytes;
};
extern size_t dynamic_bytes;
void *allocate(size_t bytes, const std::string &name); /* of the device, with guards around */
bool release_memory(void *at);
const Block *block_at(const void *at);
unsigned blocks_left();
void begin_launch(const Kernel *kernel, void *const *args);
void see(const void *at, size_t bytes, Access access, const void *pc, unsigned agent, unsigned time);
void check_again();                /* of the last write, whether it may be */
std::string named(const void *at); /* "w + 16" */
std::string site(const void *pc);  /* "kernels_0.cu:57" */
std::string thread_name(unsigned agent);
/* A fault of the kernel that runs, told once for each pair of sites. */
void fault(const std::string &what, const void *pc, const void *other = nullptr);
bool allowed(const unsigned char *at, size_t bytes, Space *space); /* whether all of it is memory of the kernel */
void count(const void *at, size_t bytes, bool write, Space space, const void *pc);
void count_launch(const Kernel *kernel, size_t bytes);
void count_rest(); /* requests that not all lanes of a warp made */

/* ---- asynchronous work (async.cpp, wgmma.cpp) ------------------------------------------------------------------- */
bool work_left(); /* does what was put off longest; false: there is none */
void begin_async();
void end_async();
void begin_products();
unsigned own_half(); /* the agent that does what the current thread does asynchronously */
void see_later(const void *at, size_t bytes, Access access, const void *pc, unsigned agent, unsigned time);
/* Reads of copies of tiles and of products, which know of a thread's writes only behind a fence. */
void see_by_proxy(const void *at, size_t bytes, const void *pc, unsigned agent, unsigned time);
bool knows(unsigned agent, unsigned time); /* whether the current thread does */
bool is_fenced(unsigned agent, unsigned time);
void check_fence(const void *at, size_t bytes, const void *pc);
uint32_t shared_address(const void *at); /* static shared memory first */
unsigned char *shared_pointer(uint32_t address);
unsigned char *swizzled(unsigned char *at, unsigned bytes);
}  // namespace emu
