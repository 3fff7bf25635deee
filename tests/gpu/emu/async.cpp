/* Asynchronous copies from global to shared memory (runtime_c/cuda/ingot_cuda.h). */
#include "fibers.h"
#include <string.h>
#include <deque>

using namespace emu;
#define PC __builtin_return_address(0)

/* ---- work that somebody does while threads run ------------------------------------------------------------------- */
static std::deque<std::function<void()>> queue;
void emu::start_work(const std::function<void()> &work)
{
    if (policy.late) queue.push_back(work);
    else work();
}
bool emu::work_left()
{
    if (queue.empty()) return false;
    const auto work = queue.front();
    queue.pop_front();
    work();
    ++progress;
    return true;
}

/* ---- cp.async ------------------------------------------------------------------------------------------------------ */
static unsigned own_half() { return (unsigned)threads.size() + current; }
static void copied(void *to, const void *from, int size, int bytes, const void *pc)
{
    if ((uintptr_t)to % (unsigned)size || (bytes && (uintptr_t)from % (unsigned)size)) trap("an asynchronous copy is not aligned");
    Thread &t = threads[current];
    const unsigned time = ++t.own_copies;
    if (seen) {
        if (bytes) touch(from, (size_t)bytes, READ, pc);
        touch(to, (size_t)size, WRITE, pc);                         /* now others are done with what was there */
        see(to, (size_t)size, WRITE, pc, own_half(), time);         /* and nobody may touch it before the copy is done */
    }
    std::vector<unsigned char> data((size_t)size, 0);
    if (bytes) memcpy(data.data(), from, (size_t)bytes);
    if (policy.late) memset(to, 0xff, (size_t)size);
    else memcpy(to, data.data(), (size_t)size);
    t.groups.back().push_back({to, data, pc, time, nullptr});
}
void ingot_cp_async4(void *to, const void *from, int bytes) { copied(to, from, 4, bytes, PC); }
void ingot_cp_async8(void *to, const void *from, int bytes) { copied(to, from, 8, bytes, PC); }
void ingot_cp_async16(void *to, const void *from, int bytes) { copied(to, from, 16, bytes, PC); }
void ingot_cp_async_commit(void) { threads[current].groups.emplace_back(); }
void ingot_cp_async_wait(int pending)
{
    auto &groups = threads[current].groups;
    while ((int)groups.size() - 1 > pending) {
        for (Copy &c : groups.front()) if (policy.late) memcpy(c.to, c.bytes.data(), c.bytes.size());
        if (!groups.front().empty()) learn(own_half(), groups.front().back().time);
        groups.erase(groups.begin());
    }
}
void ingot_barrier_sync(int number, int count) { sync_named(number, count); }
void ingot_barrier_arrive(int number, int count) { arrive_named(number, count); }
