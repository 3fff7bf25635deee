/* Asynchronous products of a warpgroup (ingot_wgmma.h): each lane computes what is its own of the sums, when the
 * product starts or, late, when it is waited for; until then its sums are NaN. */
#include "fibers.h"
#include <string.h>
#include <map>
#include "ingot_tma.h"
#include "numbers.h"

using namespace emu;
namespace {
struct Sums { /* products: in flight */
    std::vector<unsigned char> value;
    int products;
};
struct Product {
    Wgmma shape;
    uint64_t a, b;
    uint32_t words[32][4];
    int add, lane, row;
};
}  // namespace
static std::vector<std::map<void *, Sums>> in_flight;

uint64_t ingot_wgmma_tile(const void *at, int swizzle)
{
    const uint64_t kind = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
    return kind << 62 | (uint64_t)(8 * swizzle >> 4) << 32 | (uint64_t)1 << 16 | (shared_address(at) & 0x3ffffu) >> 4;
}
static unsigned char *row_of(uint64_t tile, int row)
{
    const unsigned swizzle = tile >> 62 == 1 ? 128 : tile >> 62 == 2 ? 64 : 32;
    if (!(tile >> 62)) trap("a tile of wgmma has no swizzle");
    return shared_pointer((uint32_t)(tile & 0x3fff) * 16 + (uint32_t)(row / 8) * ((uint32_t)(tile >> 32 & 0x3fff) * 16)
                          + (uint32_t)(row % 8) * swizzle);
}
static void copy_row(void *out, uint64_t tile, int row) /* 32 bytes along k */
{
    const unsigned swizzle = tile >> 62 == 1 ? 128 : tile >> 62 == 2 ? 64 : 32;
    for (int i = 0; i < 32; i += 16) memcpy((unsigned char *)out + i, swizzled(row_of(tile, row) + i, swizzle), 16);
}

template <class T, class S> static void multiply(const Product &p, S *d, S (*number)(T))
{
    const int terms = 32 / (int)sizeof(T), g = p.lane / 4, t = p.lane % 4;
    T x[2][32], y[32];
    for (int h = 0; h < 2; ++h) {
        if (!p.shape.registers) {
            copy_row(x[h], p.a, p.row + g + h * 8);
            continue;
        }
        for (int i = 0; i < 32; i += 4) /* word i / 16 * 2 + h of the lane that has these columns */
            memcpy((unsigned char *)x[h] + i, &p.words[g * 4 + i % 16 / 4][i / 16 * 2 + h], 4);
    }
    for (int i = 0; i < p.shape.columns / 2; ++i) {
        const int column = i / 4 * 8 + t * 2 + i % 2, h = i / 2 % 2;
        copy_row(y, p.b, column);
        S sum = p.add ? d[i] : 0;
        for (int k = 0; k < terms; ++k) sum += number(x[h][k]) * number(y[k]);
        d[i] = sum;
    }
}
static int32_t whole(int8_t x) { return x; }
static void compute(const Product &p, void *d)
{
    switch (p.shape.operand) {
    case Wgmma::F16: multiply<uint16_t, float>(p, (float *)d, f16); break;
    case Wgmma::BF16: multiply<uint16_t, float>(p, (float *)d, bf16); break;
    case Wgmma::TF32: multiply<uint32_t, float>(p, (float *)d, tf32); break;
    default: multiply<int8_t, int32_t>(p, (int32_t *)d, whole);
    }
}

static void together() { exchange(0xffffffffu, "", 1, MATRIX, nullptr); }
static void finished(void *d, const Product &p, unsigned thread)
{
    Sums &sums = in_flight[thread][d];
    compute(p, sums.value.data());
    if (--sums.products) return;
    memcpy(d, sums.value.data(), sums.value.size());
    in_flight[thread].erase(d);
}
void emu::wgmma(const Wgmma &shape, void *d, uint64_t a, const void *words, uint64_t b, int add, const void *pc)
{
    Thread &t = threads[current];
    if (!t.wgmma_fenced) trap("a product of a warpgroup comes without ingot_wgmma_fence() before the first");
    Product p = {shape, a, b, {{0}}, add, (int)lane, (int)(current / 32 % 4 * 16)};
    uint32_t mine[4] = {0};
    if (words) memcpy(mine, words, sizeof mine);
    const unsigned char *all = exchange(0xffffffffu, mine, sizeof mine, MATRIX, nullptr);
    for (int i = 0; i < 32; ++i) memcpy(p.words[i], all + SLOT * i, sizeof mine);
    const unsigned time = ++t.own_copies;
    if (lane == 0) { /* reads for all of its warp */
        const auto see_rows = [&](uint64_t tile, int first, int count) {
            const unsigned swizzle = tile >> 62 == 1 ? 128 : tile >> 62 == 2 ? 64 : 32;
            for (int r = first; r < first + count; ++r)
                for (int i = 0; i < 32; i += 16)
                    see_by_proxy(swizzled(row_of(tile, r) + i, swizzle), 16, pc, own_half(), time);
        };
        if (!words) see_rows(a, p.row, 16);
        see_rows(b, 0, shape.columns);
    }
    if (!policy.late) {
        compute(p, d);
        t.products.back().push_back({time, [] {}});
        return;
    }
    if (in_flight.size() < threads.size()) in_flight.resize(threads.size());
    const unsigned thread = current;
    auto known = in_flight[thread].insert({d, Sums()});
    Sums &sums = known.first->second;
    const size_t bytes = (size_t)shape.columns * 2;
    if (known.second) sums = {std::vector<unsigned char>((unsigned char *)d, (unsigned char *)d + bytes), 0};
    ++sums.products;
    memset(d, 0xff, bytes);
    t.products.back().push_back({time, [=] { finished(d, p, thread); }});
}
void ingot_wgmma_fence(void) { threads[current].wgmma_fenced = true, together(); }
void ingot_wgmma_commit(void) { together(), threads[current].products.emplace_back(); }
void ingot_wgmma_wait(int pending)
{
    Thread &t = threads[current];
    together();
    while ((int)t.products.size() - 1 > (pending < 4 ? pending : 3)) {
        for (Copy &c : t.products.front()) c.work();
        /* the first lane's half read for all of them */
        if (!t.products.front().empty())
            learn((unsigned)threads.size() + current / 32 * 32, t.products.front().back().time);
        t.products.erase(t.products.begin());
    }
    together();
}
void emu::begin_products() { in_flight.clear(); }
