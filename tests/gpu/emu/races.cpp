/* Races by vector clocks: an access is a fault unless it happens after the last write that another agent made there,
 * and a write unless it happens after all reads. Blocks of a launch never happen before one another: they may write the
 * same number to the same place, and read it then, but nothing else. */
#include "fibers.h"
#include <string.h>
#include <algorithm>
#include <unordered_map>

extern unsigned char __start_emu_builtins[], __stop_emu_builtins[];

namespace emu {
bool seen;
struct Stamp { /* time 0: nobody */
    unsigned agent, time;
    const void *pc;
    bool atomic;
};
struct Cell {
    unsigned launch = 0, block = 0; /* of which the stamps are */
    bool written = false;           /* in this block, for shared memory */
    Stamp write = {0, 0, nullptr, false}, other_write = write, other_read = write,
          other_atomic = write; /* of other blocks */
    std::vector<Stamp> uses;    /* reads and atomic accesses since; no two ordered; of a warp at most two of each */
};
struct Word { /* bytes: once they are touched apart */
    Cell whole;
    std::unique_ptr<Cell[]> bytes;
};
static const size_t PAGE = 256; /* words */
static std::unordered_map<uintptr_t, std::unique_ptr<Word[]>> pages;
unsigned launch_number;

/* ---- clocks ----------------------------------------------------------------------------------------------------- */
static void raise(Clock &clock, size_t agent, unsigned time)
{
    if (clock.size() <= agent) clock.resize(agent + 1, 0);
    clock[agent] = std::max(clock[agent], time);
}
static void join(Clock &clock, const Clock &more)
{
    if (clock.size() < more.size()) clock.resize(more.size(), 0);
    for (size_t i = 0; i < more.size(); ++i) clock[i] = std::max(clock[i], more[i]);
}
void Gathering::give()
{
    if (!seen) return;
    Thread &t = threads[current];
    if (t.known && t.known != last) join(clock, *t.known), last = t.known;
    raise(clock, current, t.time++);
    ++t.phase;
}
void Gathering::give(unsigned agent, unsigned time)
{
    if (seen) raise(clock, agent, time);
}
void Gathering::complete()
{
    done = seen ? std::make_shared<const Clock>(std::move(clock)) : nullptr;
    clock.clear(), last = nullptr;
}
void Gathering::take()
{
    if (done) threads[current].known = done;
}
void learn(const Known &known)
{
    Thread &t = threads[current];
    if (!known || known == t.known) return;
    if (!t.known) {
        t.known = known;
        return;
    }
    Clock both = *t.known;
    join(both, *known);
    t.known = std::make_shared<const Clock>(std::move(both));
}
void learn(unsigned agent, unsigned time)
{
    if (!seen) return;
    Clock more(agent + 1, 0);
    more[agent] = time;
    learn(std::make_shared<const Clock>(std::move(more)));
}

/* ---- accesses --------------------------------------------------------------------------------------------------- */
static const Clock *known_now; /* to who accesses */
static unsigned me;            /* or what the current thread does asynchronously, after all that it did */
static bool before(const Stamp &s)
{
    return !s.time || s.agent == me || s.agent == current
           || (known_now && s.agent < known_now->size() && (*known_now)[s.agent] >= s.time);
}
static void race(bool write, const void *at, const Stamp &now, bool wrote, const Stamp &other, bool other_block)
{
    fault("race: " + thread_name(now.agent) + (write ? " writes " : " reads ") + named(at) + ", which "
              + (other_block ? "a thread of another block" : thread_name(other.agent)) + (wrote ? " wrote" : " read")
              + ", and nothing orders the two",
          now.pc, other.pc);
}
/* What a thread writes where another block was, which must be what is there. */
static struct Again {
    const unsigned char *at;
    size_t bytes;
    unsigned char before[16];
    Stamp now, other;
    bool wrote;
} again;
void check_again()
{
    if (!again.at) return;
    const Again a = again;
    again.at = nullptr;
    if (memcmp(a.at, a.before, a.bytes)) race(true, a.at, a.now, a.wrote, a.other, true);
}
bool knows(unsigned agent, unsigned time)
{
    const Known &known = threads[current].known;
    return agent == current || (known && known->size() > agent && (*known)[agent] >= time);
}
static void write_again(const void *at, const Stamp &now, bool wrote, const Stamp &other)
{
    if (again.at) return;
    again = {(const unsigned char *)at, 4 - (uintptr_t)at % 4, {0}, now, other, wrote};
    memcpy(again.before, at, again.bytes);
}
static void start_of_block(Cell &c, Space space)
{
    if (c.launch != launch_number || space == SHARED) c.other_write = c.other_read = c.other_atomic = Stamp();
    else {
        if (c.write.time) c.other_write = c.write;
        for (const Stamp &s : c.uses) (s.atomic ? c.other_atomic : c.other_read) = s;
    }
    c.write = Stamp(), c.uses.clear(), c.written = false;
    c.launch = launch_number, c.block = block_number;
}
static void remember(Cell &c, const Stamp &now)
{
    unsigned of_warp = 0;
    Stamp *free = nullptr;
    for (Stamp &s : c.uses) {
        if (s.atomic != now.atomic) continue;
        if (s.agent == me) {
            s = now;
            return;
        }
        if (before(s)) free = &s;
        else of_warp += s.agent / 32 == me / 32;
    }
    if (free) *free = now;
    else if (of_warp < 2) c.uses.push_back(now);
}
static void visit(Cell &c, const Stamp &now, bool write, Space space, const void *at)
{
    if (c.launch != launch_number || c.block != block_number) start_of_block(c, space);
    if (space == SHARED && !write && !c.written)
        fault("uninitialized: " + thread_name(now.agent) + " reads " + named(at)
                  + ", which no thread of its block wrote",
              now.pc);
    if (!before(c.write)) race(write, at, now, true, c.write, false);
    for (const Stamp &s : c.uses) /* reads are at peace with reads, atomic accesses with atomic ones */
        if (!before(s) && !(s.atomic && now.atomic) && (write || s.atomic)) {
            race(write, at, now, s.atomic, s, false);
            break;
        }
    const bool plain = write && !now.atomic;
    if (c.other_write.time) {
        if (plain) write_again(at, now, true, c.other_write);
        else if (!c.written) race(write, at, now, true, c.other_write, true);
    }
    if (c.other_read.time && write) {
        if (plain) write_again(at, now, false, c.other_read);
        else race(write, at, now, false, c.other_read, true);
    }
    if (c.other_atomic.time && !now.atomic) race(write, at, now, true, c.other_atomic, true);
    c.written |= write;
    if (plain) c.write = now, c.uses.clear();
    else remember(c, now);
}
static Word &word_at(uintptr_t word)
{
    auto &page = pages[word / PAGE];
    if (!page) page.reset(new Word[PAGE]);
    return page[word % PAGE];
}
static void visit_all(uintptr_t at, size_t bytes, const Stamp &now, bool write, Space space)
{
    for (uintptr_t end = at + bytes; at < end;) {
        Word &w = word_at(at / 4);
        const size_t part = std::min<size_t>(4 - at % 4, end - at);
        if (part < 4 && !w.bytes) {
            w.bytes.reset(new Cell[4]);
            std::fill_n(w.bytes.get(), 4, w.whole);
        }
        if (w.bytes)
            for (size_t i = 0; i < part; ++i) visit(w.bytes[(at + i) % 4], now, write, space, (const void *)(at + i));
        else visit(w.whole, now, write, space, (const void *)at);
        at += part;
    }
}

/* Threads see their own stack and variables of the emulator too, which are nobody else's. */
void see(const void *p, size_t bytes, Access access, const void *pc, unsigned agent, unsigned time)
{
    const unsigned char *at = (const unsigned char *)p;
    check_again();
    if (at >= (const unsigned char *)__builtin_frame_address(0) && at < stack_end) return;
    if (at >= __start_emu_builtins && at < __stop_emu_builtins) return;
    const bool write = access == WRITE || access == VOLATILE_WRITE || access == ATOMIC;
    Space space;
    if (!allowed(at, bytes, &space)) {
        const std::string what = "outside: " + thread_name(agent) + (write ? " writes " : " reads ")
                                 + std::to_string(bytes) + " bytes at " + named(at);
        fault(what, pc);
        trap(what.c_str());
    }
    Thread &t = threads[current];
    me = agent, known_now = t.known.get();
    visit_all((uintptr_t)at, bytes,
              {agent, time, pc, access == ATOMIC || access == VOLATILE_READ || access == VOLATILE_WRITE}, write, space);
    if (again.at) { /* all of it */
        again.bytes = std::min<size_t>(sizeof again.before, (size_t)(at + bytes - again.at));
        memcpy(again.before, again.at, again.bytes);
    }
    if (bytes <= 16 && agent == current) count(at, bytes, write, space, pc);
}
void touch(const void *p, size_t bytes, Access access, const void *pc)
{
    if (running && seen) see(p, bytes, access, pc, current, threads[current].time);
}
void see_later(const void *p, size_t bytes, Access access, const void *pc, unsigned agent, unsigned time)
{
    if (running && seen) see(p, bytes, access, pc, agent, time);
}
void see_by_proxy(const void *p, size_t bytes, const void *pc, unsigned agent, unsigned time)
{
    check_fence(p, bytes, pc);
    touch(p, bytes, READ, pc);
    see_later(p, bytes, READ, pc, agent, time);
}
/* Whether asynchronous accesses of the current thread see what a thread, or its cp.async, wrote at a time: either of
 * the two had a fence when it knew of that. */
bool is_fenced(unsigned agent, unsigned time)
{
    const unsigned n = (unsigned)threads.size();
    const auto knew = [=](const Thread &t) {
        return t.known_at_fence && t.known_at_fence->size() > agent && (*t.known_at_fence)[agent] >= time;
    };
    return (agent < n && threads[agent].fenced >= time) || knew(threads[agent % n]) || knew(threads[current]);
}
void check_fence(const void *p, size_t bytes, const void *pc)
{
    if (!running || !seen) return;
    for (uintptr_t at = (uintptr_t)p; at < (uintptr_t)p + bytes; at += 4) {
        const Word &w = word_at(at / 4);
        const Cell &c = w.bytes ? w.bytes[at % 4] : w.whole;
        const Stamp &s = c.write;
        if (c.launch == launch_number && c.block == block_number && s.time && s.agent < 2 * threads.size()
            && !is_fenced(s.agent, s.time))
            fault("unfenced: an asynchronous access of " + thread_name(current) + " reads " + named((const void *)at)
                      + ", which " + thread_name(s.agent) + " wrote without ingot_fence_proxy_async() since",
                  pc, s.pc);
    }
}
}  // namespace emu
