/* A block of threads: each a fiber that runs as far as it can, in the order that the policy says. */
#include "fibers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <algorithm>
#include <map>
#include <random>
#include "cuda_runtime.h"

namespace emu {
uint3 thread_idx, block_idx;
dim3 block_dim, grid_dim;
unsigned lane, current, live;
unsigned char *dynamic_shared;
Policy policy = {UP, 0, false};
std::vector<Thread> threads;
std::string failure;
static jmp_buf scheduler;
static const Kernel *running;
static void *const *arguments;
static const size_t STACK = 256 << 10;

/* ---- meetings ------------------------------------------------------------------------------------------------ */
struct Meeting {
    unsigned members = 0, ready = 0, generation = 0;
    unsigned char all[2][32 * SLOT];
    unsigned here[2];
    Meeting_kind kind;
};
static std::vector<Meeting> warps;
struct Barrier { unsigned arrived = 0; int count = 0, last = 0; };
static Barrier whole;
static std::map<int, Barrier> named;

static void enter(unsigned n)
{
    current = n;
    const unsigned x = block_dim.x, xy = x * block_dim.y;
    thread_idx.x = n % x, thread_idx.y = n % xy / x, thread_idx.z = n / xy;
    lane = n % 32;
}

void wait_for(const std::string &what)
{
    threads[current].waits = what;
    if (!_setjmp(threads[current].at)) _longjmp(scheduler, 1);
}

void fail(const std::string &what)
{
    if (failure.empty()) failure = std::string(running ? running->name : "?") + ": " + what;
}

void trap(const char *what)
{
    fail(what);
    _longjmp(scheduler, 2);
    abort();
}

static void release(const std::string &what)
{
    for (Thread &t : threads)
        if (t.waits == what) t.waits.clear();
}

static void complete_whole()
{
    if (live && whole.arrived == live) {
        whole.last = whole.count, whole.arrived = 0, whole.count = 0;
        release("__syncthreads");
    }
}

int sync_block_count(int predicate)
{
    if (running->alone) trap("a kernel that was taken for one without barriers has one");
    ++whole.arrived;
    whole.count += predicate != 0;
    if (whole.arrived == live) complete_whole();
    else wait_for("__syncthreads");
    return whole.last;
}
void sync_block() { sync_block_count(0); }

static void arrive(int number, int count)
{
    Barrier &b = named[number];
    if (++b.arrived == (unsigned)count / 1u) b.arrived = 0, release("barrier " + std::to_string(number));
}
void sync_named(int number, int count)
{
    Barrier &b = named[number];
    if (b.arrived + 1 == (unsigned)count) arrive(number, count);
    else ++b.arrived, wait_for("barrier " + std::to_string(number));
}
void arrive_named(int number, int count) { arrive(number, count); }

static unsigned alive_lanes(unsigned warp)
{
    unsigned mask = 0;
    for (unsigned l = 0; l < 32 && warp * 32 + l < threads.size(); ++l)
        if (!threads[warp * 32 + l].done) mask |= 1u << l;
    return mask;
}
unsigned active_mask() { return alive_lanes(current / 32); }

const unsigned char *exchange(unsigned mask, const void *mine, size_t bytes, Meeting_kind kind, unsigned *here)
{
    if (running->alone) trap("a kernel that was taken for one whose threads do not meet has threads that do");
    const unsigned warp = current / 32;
    Meeting &m = warps[warp];
    if (!(mask >> lane & 1)) trap("a lane meets others without being in its mask");
    if (m.ready == 0) m.members = mask, m.kind = kind;
    if (m.members != mask) trap("lanes of a warp meet under different masks");
    if (m.kind != kind) trap("lanes of a warp meet in different operations");
    const unsigned generation = m.generation;
    memcpy(m.all[generation] + SLOT * lane, mine, bytes);
    m.ready |= 1u << lane;
    const std::string what = "warp " + std::to_string(warp);
    const unsigned needed = mask & alive_lanes(warp);
    if ((m.ready & needed) == needed) {
        m.here[generation] = m.ready;
        m.ready = 0, m.generation ^= 1;
        release(what);
    } else
        wait_for(what);
    if (here) *here = m.here[generation];
    return m.all[generation];
}

void pause()
{
    if (!running->alone) {
        threads[current].waits.clear();
        if (!_setjmp(threads[current].at)) _longjmp(scheduler, 1);
    }
}
long long clock_now() { static long long now; return now += 16; }
void touch(const void *, size_t, Access, const void *) {}

/* ---- running ------------------------------------------------------------------------------------------------- */
static void body()
{
    running->call(running->at, arguments);
    threads[current].done = true;
    --live;
    complete_whole();
    const unsigned warp = current / 32, needed = alive_lanes(warp) & warps[warp].members;
    Meeting &m = warps[warp];
    if (m.ready && (m.ready & needed) == needed) {  /* the others waited for this lane alone */
        m.here[m.generation] = m.ready;
        m.ready = 0, m.generation ^= 1;
        release("warp " + std::to_string(warp));
    }
    _longjmp(scheduler, 1);
}

static std::vector<unsigned> order(unsigned count)
{
    std::vector<unsigned> found(count);
    for (unsigned i = 0; i < count; ++i) found[i] = policy.order == DOWN ? count - 1 - i : i;
    if (policy.order == SHUFFLED) {
        static std::mt19937 random(policy.seed);
        std::shuffle(found.begin(), found.end(), random);
    }
    return found;
}

static void run_fibers(unsigned count)
{
    threads.resize(count);
    warps.assign((count + 31) / 32, Meeting());
    whole = Barrier(), named.clear(), live = count;
    for (Thread &t : threads) {
        if (t.stack.size() != STACK) t.stack.resize(STACK);
        t.started = t.done = false, t.waits.clear(), t.groups.assign(1, {});
    }
    const std::vector<unsigned> turns = order(count);
    while (live) {
        static bool ran;
        ran = false;
        for (volatile unsigned i = 0; i < count; ++i) {
            Thread &t = threads[turns[i]];
            if (t.done || !t.waits.empty()) continue;
            ran = true;
            const int back = _setjmp(scheduler);
            if (back == 2) { live = 0; return; }
            if (back) continue;
            enter(turns[i]);
            if (t.started) _longjmp(t.at, 1);
            t.started = true;
            getcontext(&t.first);
            t.first.uc_stack.ss_sp = t.stack.data();
            t.first.uc_stack.ss_size = STACK;
            t.first.uc_link = nullptr;
            makecontext(&t.first, body, 0);
            setcontext(&t.first);
        }
        if (!ran && live) {
            std::string who;
            for (unsigned i = 0; i < count && who.size() < 200; ++i)
                if (!threads[i].done) who += " thread " + std::to_string(i) + " for " + threads[i].waits + ";";
            fail("deadlock:" + who);
            return;
        }
    }
}

void run_block(const Kernel *kernel, void *const *args)
{
    running = kernel, arguments = args;
    const unsigned count = block_dim.x * block_dim.y * block_dim.z;
    memset(kernel->shared, 0xff, (size_t)(kernel->shared_end - kernel->shared));
    if (!kernel->alone) { run_fibers(count); return; }
    if (_setjmp(scheduler)) return;
    const std::vector<unsigned> turns = order(count);
    for (unsigned n : turns) {
        enter(n);
        kernel->call(kernel->at, args);
    }
}
}

/* ---- asynchronous copies (runtime_c/cuda/ingot_cuda.h) --------------------------------------------------------- */
using namespace emu;
static void copied(void *to, const void *from, int size, int bytes)
{
    std::vector<unsigned char> data((size_t)size, 0);
    if (bytes) memcpy(data.data(), from, (size_t)bytes);
    if ((uintptr_t)to % (unsigned)size || (bytes && (uintptr_t)from % (unsigned)size)) trap("an asynchronous copy is not aligned");
    if (!policy.late) { memcpy(to, data.data(), (size_t)size); return; }
    memset(to, 0xff, (size_t)size);
    threads[current].groups.back().push_back({to, data});
}
void ingot_cp_async4(void *to, const void *from, int bytes) { copied(to, from, 4, bytes); }
void ingot_cp_async8(void *to, const void *from, int bytes) { copied(to, from, 8, bytes); }
void ingot_cp_async16(void *to, const void *from, int bytes) { copied(to, from, 16, bytes); }
void ingot_cp_async_commit(void) { threads[current].groups.emplace_back(); }
void ingot_cp_async_wait(int pending)
{
    auto &groups = threads[current].groups;
    while ((int)groups.size() - 1 > pending) {
        for (Copy &c : groups.front()) memcpy(c.to, c.bytes.data(), c.bytes.size());
        groups.erase(groups.begin());
    }
}
void ingot_barrier_sync(int number, int count) { sync_named(number, count); }
void ingot_barrier_arrive(int number, int count) { arrive_named(number, count); }
