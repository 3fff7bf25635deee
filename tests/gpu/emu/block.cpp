/* A block of threads: each a fiber that runs as far as it can, in the order that the policy says. */
#include "fibers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <algorithm>
#include <map>
#include <random>

namespace emu {
#define BUILTIN __attribute__((section("emu_builtins"))) /* variables that kernels read, seen or not */
uint3 thread_idx BUILTIN, block_idx BUILTIN;
dim3 block_dim BUILTIN, grid_dim BUILTIN;
unsigned lane BUILTIN;
unsigned char *dynamic_shared BUILTIN;
int dropped BUILTIN = -1, barrier_site BUILTIN, barrier_line BUILTIN;
unsigned current, live, progress, block_number;
Policy policy = {UP, 0, false, false};
std::vector<Thread> threads;
std::string failure;
const Kernel *running;
const unsigned char *stack_end;
static jmp_buf scheduler;
static void *const *arguments;
static const size_t STACK = 256 << 10;

/* ---- meetings ------------------------------------------------------------------------------------------------ */
struct Meeting {
    unsigned members = 0, ready = 0, generation = 0;
    unsigned char all[2][32 * SLOT];
    unsigned here[2];
    Gathering known[2];
    Meeting_kind kind;
};
static std::vector<Meeting> warps;
struct Barrier {
    unsigned arrived = 0;
    int count = 0, last = 0, site = 0;
    Gathering known;
};
static Barrier whole;
static std::map<int, Barrier> named_barriers;

static void enter(unsigned n)
{
    current = n;
    const unsigned x = block_dim.x, xy = x * block_dim.y;
    thread_idx.x = n % x, thread_idx.y = n % xy / x, thread_idx.z = n / xy;
    lane = n % 32;
    if (!running->alone) stack_end = threads[n].stack.data() + STACK;
}

void wait_for(Waits what)
{
    check_again();
    threads[current].waits = what;
    if (!_setjmp(threads[current].at)) _longjmp(scheduler, 1);
}
void release(Waits what)
{
    ++progress;
    for (Thread &t : threads)
        if (t.waits.kind == what.kind && t.waits.on == what.on) t.waits.kind = Waits::NOTHING;
}
static std::string told(Waits w)
{
    const char *const names[] = {"nothing", "__syncthreads", "barrier ", "its warp", "mbarrier "};
    return names[w.kind]
           + (w.kind == Waits::NAMED      ? std::to_string(w.on)
              : w.kind == Waits::MBARRIER ? named((const void *)w.on)
                                          : "");
}

void fail(const std::string &what)
{
    const std::string where = "block (" + std::to_string(block_idx.x) + ", " + std::to_string(block_idx.y) + ", "
                            + std::to_string(block_idx.z) + ")";
    const std::string text = (running ? running->name : "?") + (", " + where + ": " + what);
    if (failure.size() < 2000) failure += (failure.empty() ? "" : "\n") + text;
    fprintf(stderr, "emulator: %s\n", text.c_str());
}

void trap(const char *what)
{
    if (failure.empty()) fail(what);
    _longjmp(scheduler, 2);
    abort();
}

static void complete_whole()
{
    if (live && whole.arrived == live) {
        whole.last = whole.count, whole.arrived = 0, whole.count = 0;
        whole.known.complete();
        release({Waits::BLOCK, 0});
    }
}

/* All threads of a block come to the same barrier of the text; one that has ended comes to none. */
static void check_together()
{
    if (!seen) return;
    if (whole.arrived == 1) whole.site = barrier_site;
    const std::string line = ", line " + std::to_string(barrier_line);
    if (whole.site != barrier_site) fault("divergent: threads of a block wait at different barriers" + line, &whole);
    if (live != threads.size())
        fault("divergent: threads of a block wait at a barrier that others have passed by" + line, &live);
}

int sync_block_count(int predicate)
{
    if (running->alone) trap("a kernel that was taken for one without barriers has one");
    ++whole.arrived, ++progress;
    check_together();
    whole.count += predicate != 0;
    whole.known.give();
    if (whole.arrived == live) complete_whole();
    else wait_for({Waits::BLOCK, 0});
    whole.known.take();
    return whole.last;
}
void sync_block() { sync_block_count(0); }

static bool arrive(Barrier &b, int number, int count)
{
    b.known.give();
    ++progress;
    if (++b.arrived != (unsigned)count) return false;
    b.arrived = 0;
    b.known.complete();
    release({Waits::NAMED, (uintptr_t)number});
    return true;
}
void sync_named(int number, int count)
{
    Barrier &b = named_barriers[number];
    if (!arrive(b, number, count)) wait_for({Waits::NAMED, (uintptr_t)number});
    b.known.take();
}
void arrive_named(int number, int count) { arrive(named_barriers[number], number, count); }

static unsigned alive_lanes(unsigned warp)
{
    unsigned mask = 0;
    for (unsigned l = 0; l < 32 && warp * 32 + l < threads.size(); ++l)
        if (!threads[warp * 32 + l].done) mask |= 1u << l;
    return mask;
}
unsigned active_mask() { return alive_lanes(current / 32); }

static void complete_warp(Meeting &m, unsigned warp)
{
    m.here[m.generation] = m.ready;
    m.known[m.generation].complete();
    m.ready = 0, m.generation ^= 1;
    release({Waits::WARP, warp});
}

/* Lanes hand one another numbers; only __syncwarp says that memory is in order too. */
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
    m.ready |= 1u << lane, ++progress;
    if (kind == SYNC) m.known[generation].give();
    else ++threads[current].phase;
    const unsigned needed = mask & alive_lanes(warp);
    if ((m.ready & needed) == needed) complete_warp(m, warp);
    else wait_for({Waits::WARP, warp});
    if (kind == SYNC) m.known[generation].take();
    if (here) *here = m.here[generation];
    return m.all[generation];
}

void pause()
{
    if (!running->alone) {
        threads[current].waits.kind = Waits::NOTHING;
        if (!_setjmp(threads[current].at)) _longjmp(scheduler, 1);
    }
}
long long clock_now()
{
    static long long now;
    return now += 16;
}

/* ---- running ------------------------------------------------------------------------------------------------- */
static void body()
{
    running->call(running->at, arguments);
    check_again();
    threads[current].done = true;
    --live, ++progress;
    if (whole.arrived) check_together();
    complete_whole();
    const unsigned warp = current / 32, needed = alive_lanes(warp) & warps[warp].members;
    Meeting &m = warps[warp];
    if (m.ready && (m.ready & needed) == needed) complete_warp(m, warp); /* the others waited for this lane alone */
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

static void begin_threads(unsigned count)
{
    threads.resize(count);
    for (Thread &t : threads) {
        for (auto *groups : {&t.groups, &t.stores, &t.products})
            if (groups->size() != 1 || !groups->front().empty()) groups->assign(1, {});
        t.started = t.done = false, t.waits = {Waits::NOTHING, 0};
        t.known = t.known_at_fence = nullptr, t.fenced = 0, t.wgmma_fenced = false, t.time = 1, t.own_copies = 0,
        t.phase = 0, t.visits_phase = 0;
        std::fill(t.visits.begin(), t.visits.end(), 0);
    }
}

static void run_on(unsigned n) /* until it waits or ends */
{
    Thread &t = threads[n];
    enter(n);
    if (t.started) _longjmp(t.at, 1);
    t.started = true;
    if (t.stack.size() != STACK) t.stack.resize(STACK), enter(n);
    getcontext(&t.first);
    t.first.uc_stack.ss_sp = t.stack.data();
    t.first.uc_stack.ss_size = STACK;
    t.first.uc_link = nullptr;
    makecontext(&t.first, body, 0);
    setcontext(&t.first);
}

static void stuck()
{
    std::map<std::string, std::pair<std::string, unsigned>> waiting; /* for what: the first thread, how many others */
    for (unsigned i = 0; i < threads.size(); ++i)
        if (!threads[i].done) {
            auto known = waiting.insert({told(threads[i].waits), {thread_name(i), 0}});
            if (!known.second) ++known.first->second.second;
        }
    std::string who;
    for (auto &w : waiting)
        who += " " + w.second.first + (w.second.second ? " and " + std::to_string(w.second.second) + " others" : "")
               + " for " + w.first + ";";
    fail("deadlock:" + who);
}

static void run_fibers(unsigned count)
{
    static const unsigned PATIENCE = 1000; /* rounds in which threads ran, and nothing came of it */
    warps.assign((count + 31) / 32, Meeting());
    whole = Barrier(), named_barriers.clear(), live = count;
    static std::vector<unsigned> turns;
    turns = order(count);
    static unsigned idle;
    idle = 0;
    while (live) {
        static bool ran;
        static unsigned since;
        ran = false, since = progress;
        for (volatile unsigned i = 0; i < count; ++i) {
            Thread &t = threads[turns[i]];
            if (t.done || t.waits.kind != Waits::NOTHING) continue;
            ran = true;
            const int back = _setjmp(scheduler);
            if (back == 2) {
                live = 0;
                return;
            }
            if (!back) run_on(turns[i]);
            if (policy.starving && progress != since) break;
        }
        idle = progress == since ? idle + 1 : 0;
        if (live && (!ran || idle)) {
            if (work_left()) idle = 0;
            else if (!ran || idle > PATIENCE) {
                stuck();
                return;
            }
        }
    }
}

void run_block(const Kernel *kernel, void *const *args)
{
    arguments = args;
    block_number = block_idx.x + grid_dim.x * (block_idx.y + grid_dim.y * block_idx.z);
    const unsigned count = block_dim.x * block_dim.y * block_dim.z;
    memset(kernel->shared, 0xff, (size_t)(kernel->shared_end - kernel->shared));
    begin_threads(count);
    if (!kernel->alone) {
        begin_async();
        begin_products();
        run_fibers(count);
        if (failure.empty()) end_async();
    } else if (!_setjmp(scheduler)) {
        stack_end = (const unsigned char *)__builtin_frame_address(0);
        static std::vector<unsigned> turns;
        turns = order(count);
        for (unsigned n : turns) {
            enter(n);
            kernel->call(kernel->at, args);
            check_again();
        }
    }
    count_rest();
}
}  // namespace emu
