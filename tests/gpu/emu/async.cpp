/* What the device does while threads run on: asynchronous copies, barriers that count bytes, copies of tiles
 * (runtime_c/cuda/ingot_cuda.h and ingot_tma.h). */
#include "fibers.h"
#include <string.h>
#include <algorithm>
#include <deque>
#include <map>
#include "cuda.h"
#include "ingot_tma.h"

using namespace emu;
#define PC __builtin_return_address(0)

/* ---- work that somebody does while threads run ------------------------------------------------------------------ */
static std::deque<std::function<void()>> queue;
static void start_work(const std::function<void()> &work)
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
unsigned emu::own_half() { return (unsigned)threads.size() + current; }

/* Copies of the groups before the last `pending` are done, and the thread knows it. */
static void wait_for_groups(std::vector<std::vector<Copy>> &groups, int pending)
{
    while ((int)groups.size() - 1 > pending) {
        for (Copy &c : groups.front()) c.work();
        if (!groups.front().empty()) learn(own_half(), groups.front().back().time);
        groups.erase(groups.begin());
    }
}

/* ---- cp.async --------------------------------------------------------------------------------------------------- */
static void copied(void *to, const void *from, int size, int bytes, const void *pc)
{
    if ((uintptr_t)to % (unsigned)size || (bytes && (uintptr_t)from % (unsigned)size))
        trap("an asynchronous copy is not aligned");
    Thread &t = threads[current];
    const unsigned time = ++t.own_copies;
    if (bytes) touch(from, (size_t)bytes, READ, pc);
    touch(to, (size_t)size, WRITE, pc);                       /* now others are done with what was there */
    see_later(to, (size_t)size, WRITE, pc, own_half(), time); /* and nobody may touch it before the copy is done */
    std::vector<unsigned char> data((size_t)size, 0);
    if (bytes) memcpy(data.data(), from, (size_t)bytes);
    if (policy.late) memset(to, 0xff, (size_t)size);
    else memcpy(to, data.data(), (size_t)size);
    t.groups.back().push_back({time, [=] {
                                   if (policy.late) memcpy(to, data.data(), data.size());
                               }});
}
void ingot_cp_async4(void *to, const void *from, int bytes) { copied(to, from, 4, bytes, PC); }
void ingot_cp_async8(void *to, const void *from, int bytes) { copied(to, from, 8, bytes, PC); }
void ingot_cp_async16(void *to, const void *from, int bytes) { copied(to, from, 16, bytes, PC); }
void ingot_cp_async_commit(void) { threads[current].groups.emplace_back(); }
void ingot_cp_async_wait(int pending) { wait_for_groups(threads[current].groups, pending < 8 ? pending : 7); }
void ingot_barrier_sync(int number, int count) { sync_named(number, count); }
void ingot_barrier_arrive(int number, int count) { arrive_named(number, count); }

/* ---- mbarriers -------------------------------------------------------------------------------------------------- */
struct Mbarrier {
    unsigned number, by, when;
    int count, left;
    long bytes;
    unsigned phase, time;
    Gathering known;
};
static std::map<uint64_t *, Mbarrier> mbarriers;
void emu::begin_async() { mbarriers.clear(), queue.clear(); }
void emu::end_async()
{
    for (current = 0; current < threads.size(); ++current) {
        threads[current].stores.emplace_back();
        wait_for_groups(threads[current].stores, 0);
    }
    if (!queue.empty()) fail("a block ends before copies to its shared memory, which it did not wait for");
}
static Mbarrier &mbarrier(uint64_t *bar, const void *pc)
{
    const auto found = mbarriers.find(bar);
    if (found == mbarriers.end()) trap(("mbarrier " + named(bar) + " was not initialized").c_str());
    const Mbarrier &b = found->second;
    if (seen && !knows(b.by, b.when))
        fault("race: " + thread_name(current) + " uses mbarrier " + named(bar) + ", which " + thread_name(b.by)
                  + " initializes, and nothing orders the two",
              pc);
    return found->second;
}
static void complete_phase(uint64_t *bar, Mbarrier &b)
{
    ++progress;
    if (b.left < 0) trap(("more threads arrive at mbarrier " + named(bar) + " than it counts").c_str());
    if (b.left || b.bytes) return;
    b.left = b.count, ++b.phase;
    b.known.complete();
    release({Waits::MBARRIER, (uintptr_t)bar});
}
void ingot_mbarrier_init(uint64_t *bar, int count)
{
    touch(bar, 8, WRITE, PC);
    const unsigned number = (unsigned)mbarriers.size();
    mbarriers[bar] = Mbarrier{number, current, threads[current].time, count, count, 0, 0, 0, Gathering()};
}
void ingot_mbarrier_init_fence(void) { ingot_fence_proxy_async(); }
static void arrive(uint64_t *bar, int bytes, const void *pc)
{
    Mbarrier &b = mbarrier(bar, pc);
    b.known.give();
    b.bytes += bytes, --b.left;
    complete_phase(bar, b);
}
void ingot_mbarrier_arrive(uint64_t *bar) { arrive(bar, 0, PC); }
void ingot_mbarrier_arrive_expect_tx(uint64_t *bar, int bytes) { arrive(bar, bytes, PC); }
static bool ended(uint64_t *bar, int parity, const void *pc)
{
    Mbarrier &b = mbarrier(bar, pc);
    if ((int)(b.phase & 1) == parity) return false;
    learn(b.known.done);
    ++threads[current].phase;
    return true;
}
int ingot_mbarrier_try_wait_parity(uint64_t *bar, int parity)
{
    if (ended(bar, parity, PC)) return 1;
    pause();
    return 0;
}
void ingot_mbarrier_wait_parity(uint64_t *bar, int parity)
{
    const void *pc = PC;
    while (!ended(bar, parity, pc)) wait_for({Waits::MBARRIER, (uintptr_t)bar});
}
void ingot_mbarrier_arrive_cp_async(uint64_t *bar)
{
    Mbarrier &b = mbarrier(bar, PC);
    std::vector<Copy> copies;
    for (auto &group : threads[current].groups) copies.insert(copies.end(), group.begin(), group.end()), group.clear();
    const unsigned agent = own_half(), time = threads[current].own_copies;
    start_work([=, &b] {
        for (const Copy &c : copies) c.work();
        b.known.give(agent, time);
        --b.left;
        complete_phase(bar, b);
    });
}

/* ---- copies of tiles -------------------------------------------------------------------------------------------- */
void ingot_fence_proxy_async(void)
{
    Thread &t = threads[current];
    t.fenced = t.time++, t.known_at_fence = t.known;
}
void ingot_tma_prefetch_map(const ingot_tensor_map *) {}

struct Map {
    unsigned char *base;
    uint64_t columns, rows, row_bytes;
    uint32_t box_columns, box_rows, element, swizzle;
};
static const uint64_t ENCODED = 0x70616d20726f736e;
extern "C" CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *base,
                                           const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                                           const cuuint32_t *steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                           CUtensorMapL2promotion, CUtensorMapFloatOOBfill)
{
    static const uint32_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    const uint32_t element = bytes[type], widest = swizzle ? 16u << swizzle : 256 * element;
    if (rank != 2 || (uintptr_t)base % 16 || strides[0] % 16 || strides[0] >= (uint64_t)1 << 40 || !box[0] || !box[1]
        || box[0] > 256 || box[1] > 256 || box[0] * element % 16 || box[0] * element > widest || steps[0] != 1
        || steps[1] != 1)
        return CUDA_ERROR_INVALID_VALUE;
    const Map m = {(unsigned char *)base,        sizes[0], sizes[1], strides[0], box[0], box[1], element,
                   swizzle ? 16u << swizzle : 0u};
    memset(map, 0, sizeof *map);
    map->opaque[0] = ENCODED;
    memcpy(map->opaque + 1, &m, sizeof m);
    return CUDA_SUCCESS;
}
static Map decoded(const ingot_tensor_map *map, const void *tile)
{
    Map m;
    if (map->words[0] != ENCODED) trap("a tensor map was not encoded");
    memcpy(&m, map->words + 1, sizeof m);
    if (shared_address(tile) % (m.swizzle == 128 ? 1024 : m.swizzle == 64 ? 512 : m.swizzle == 32 ? 256 : 128))
        trap(("a tile at " + named(tile) + " is not aligned for its swizzle").c_str());
    return m;
}
unsigned char *emu::swizzled(unsigned char *at, unsigned bytes)
{
    const uint32_t a = shared_address(at), bits = bytes / 16 - 1;
    return bytes ? at + (int32_t)((a ^ (a >> 7 & bits) << 4) - a) : at;
}
/* Each row of a tile that lies in the matrix: its place there, the row of the tile, the columns. */
template <class F> static void rows_of(const Map &m, int x, int y, F f)
{
    const int64_t first = x < 0 ? -x : 0, end = std::min<int64_t>(m.box_columns, (int64_t)m.columns - x);
    for (int64_t r = 0; r < m.box_rows; ++r)
        if (y + r >= 0 && y + r < (int64_t)m.rows && end > first)
            f(m.base + (uint64_t)(y + r) * m.row_bytes + (uint64_t)(x + first) * m.element, r, first, end);
}
static unsigned char *element_of(const Map &m, unsigned char *tile, int64_t row, int64_t column)
{ return swizzled(tile + (row * m.box_columns + column) * m.element, m.swizzle); }
void ingot_tma_load_2d(void *dst, const ingot_tensor_map *map, uint64_t *bar, int x, int y)
{
    const void *pc = PC;
    const Map m = decoded(map, dst);
    Mbarrier &b = mbarrier(bar, pc);
    unsigned char *const tile = (unsigned char *)dst;
    const size_t bytes = (size_t)m.box_rows * m.box_columns * m.element;
    const unsigned agent = 2 * (unsigned)threads.size() + b.number, time = ++b.time;
    if (seen && !is_fenced(b.by, b.when))
        fault("unfenced: a copy arrives at " + named(bar)
                  + ", which was initialized without ingot_mbarrier_init_fence() since",
              pc);
    rows_of(m, x, y, [&](unsigned char *row, int64_t, int64_t first, int64_t end) {
        touch(row, (size_t)(end - first) * m.element, READ, pc);
    });
    touch(tile, bytes, WRITE, pc);
    see_later(tile, bytes, WRITE, pc, agent, time);
    if (policy.late) memset(tile, 0xff, bytes);
    start_work([=, &b] {
        for (int64_t r = 0; r < m.box_rows; ++r)
            for (int64_t c = 0; c < m.box_columns; ++c) memset(element_of(m, tile, r, c), 0, m.element);
        rows_of(m, x, y, [&](unsigned char *row, int64_t r, int64_t first, int64_t end) {
            for (int64_t c = first; c < end; ++c)
                memcpy(element_of(m, tile, r, c), row + (c - first) * m.element, m.element);
        });
        b.known.give(agent, time);
        b.bytes -= (long)bytes;
        complete_phase(bar, b);
    });
}
void ingot_tma_store_2d(const ingot_tensor_map *map, const void *src, int x, int y)
{
    const void *pc = PC;
    const Map m = decoded(map, src);
    unsigned char *const tile = (unsigned char *)src;
    Thread &t = threads[current];
    const unsigned agent = own_half(), time = ++t.own_copies;
    const size_t bytes = (size_t)m.box_rows * m.box_columns * m.element;
    see_by_proxy(tile, bytes, pc, agent, time);
    rows_of(m, x, y, [&](unsigned char *row, int64_t, int64_t first, int64_t end) {
        see_later(row, (size_t)(end - first) * m.element, WRITE, pc, agent, time);
    });
    const auto work = [=] {
        rows_of(m, x, y, [&](unsigned char *row, int64_t r, int64_t first, int64_t end) {
            for (int64_t c = first; c < end; ++c)
                memcpy(row + (c - first) * m.element, element_of(m, tile, r, c), m.element);
        });
    };
    if (!policy.late) work();
    t.stores.back().push_back({time, [=] {
                                   if (policy.late) work();
                               }});
}
void ingot_tma_store_commit(void) { threads[current].stores.emplace_back(); }
void ingot_tma_store_wait_read(int pending) { wait_for_groups(threads[current].stores, pending < 4 ? pending : 3); }
void ingot_setmaxnreg_inc(int) {}
void ingot_setmaxnreg_dec(int) {}
