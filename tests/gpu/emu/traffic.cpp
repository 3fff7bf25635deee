/* What accesses cost: how often a warp's request to shared memory is served, since lanes want different words of one
 * bank, and how many sectors of 32 bytes a request to global memory moves. EMU_REPORT=FILE gets a
 * line of each at the end. */
#include "fibers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <algorithm>
#include <map>
#include <unordered_map>

namespace emu {
struct Request {
    uintptr_t at[32];
    unsigned lanes;
    unsigned bytes;
};
struct Site {
    const Kernel *kernel;
    const void *pc;
    bool write;
    Space space;
};
struct Total {
    size_t requests = 0, cost = 0, ideal = 0, worst = 0, bytes = 0;
};
static std::unordered_map<const void *, unsigned> numbers;
static std::vector<Site> sites;
static std::vector<Total> totals;
static std::unordered_map<uint64_t, Request> open;

/* How often banks of 4 bytes serve the lanes of a request: at most 128 bytes at a time. */
static void banks(Total &total, const Request &r)
{
    const unsigned together = r.bytes <= 4 ? 32 : 128 / r.bytes;
    for (unsigned first = 0; first < 32; first += together) {
        uintptr_t words[64];
        unsigned count = 0, of_bank[32] = {0}, worst = 0;
        for (unsigned i = first; i < first + together; ++i)
            if (r.lanes >> i & 1)
                for (uintptr_t w = r.at[i] / 4; w <= (r.at[i] + r.bytes - 1) / 4 && count < 64; ++w) words[count++] = w;
        std::sort(words, words + count);
        count = (unsigned)(std::unique(words, words + count) - words);
        for (unsigned i = 0; i < count; ++i) worst = std::max(worst, ++of_bank[words[i] % 32]);
        total.cost += worst, total.ideal += count != 0;
        total.worst = std::max<size_t>(total.worst, worst);
    }
}
static void sectors(Total &total, const Request &r)
{
    std::vector<uintptr_t> touched, distinct;
    for (unsigned i = 0; i < 32; ++i)
        if (r.lanes >> i & 1) {
            for (uintptr_t s = r.at[i] / 32; s <= (r.at[i] + r.bytes - 1) / 32; ++s) touched.push_back(s);
            distinct.push_back(r.at[i]);
        }
    std::sort(touched.begin(), touched.end()), std::sort(distinct.begin(), distinct.end());
    const size_t n = (size_t)(std::unique(touched.begin(), touched.end()) - touched.begin());
    total.cost += n, total.worst = std::max(total.worst, n);
    total.ideal += ((size_t)(std::unique(distinct.begin(), distinct.end()) - distinct.begin()) * r.bytes + 31) / 32;
}
static void complete(unsigned number, const Request &r)
{
    Total &total = totals[number];
    ++total.requests, total.bytes = r.bytes;
    if (sites[number].space == SHARED) banks(total, r);
    else sectors(total, r);
}

static bool wanted()
{
    static const bool is = getenv("EMU_REPORT") != nullptr;
    return is;
}
void count(const void *at, size_t bytes, bool write, Space space, const void *pc)
{
    if (!wanted()) return;
    auto known = numbers.insert({pc, (unsigned)sites.size()});
    if (known.second) sites.push_back({running, pc, write, space}), totals.emplace_back();
    const unsigned number = known.first->second;
    Thread &t = threads[current];
    if (t.visits_phase != t.phase) std::fill(t.visits.begin(), t.visits.end(), 0), t.visits_phase = t.phase;
    if (t.visits.size() <= number) t.visits.resize(number + 1, 0);
    const uint64_t key = (uint64_t)number << 48 | (uint64_t)(current / 32) << 42 | (uint64_t)(t.phase & 0xfffff) << 22
                         | (t.visits[number]++ & 0x3fffff);
    Request &r = open[key];
    r.at[lane] = (uintptr_t)at, r.bytes = (unsigned)bytes, r.lanes |= 1u << lane;
    if (r.lanes == 0xffffffffu) complete(number, r), open.erase(key);
}
void count_rest()
{
    for (auto &r : open) complete((unsigned)(r.first >> 48), r.second);
    open.clear();
}

struct Launches { /* shared: dynamic */
    unsigned count = 0;
    size_t blocks = 0, threads = 0, shared = 0;
};
static std::map<std::string, Launches> launches;
void count_launch(const Kernel *kernel, size_t bytes)
{
    if (!wanted()) return;
    Launches &l = launches[kernel->name];
    ++l.count, l.blocks += (size_t)grid_dim.x * grid_dim.y * grid_dim.z;
    l.threads = std::max<size_t>(l.threads, block_dim.x * block_dim.y * block_dim.z),
    l.shared = std::max(l.shared, bytes);
}

struct Report {
    ~Report()
    {
        FILE *file = wanted() && !launches.empty() ? fopen(getenv("EMU_REPORT"), "a") : nullptr;
        for (auto &l : launches)
            if (file)
                fprintf(file,
                        "{\"kernel\": \"%s\", \"launches\": %u, \"blocks\": %zu, \"threads\": %zu, \"shared\": %zu}\n",
                        l.first.c_str(), l.second.count, l.second.blocks, l.second.threads, l.second.shared);
        for (size_t i = 0; file && i < sites.size(); ++i)
            fprintf(file,
                    "{\"kernel\": \"%s\", \"site\": \"%s\", \"space\": \"%s\", \"access\": \"%s\", \"bytes\": %zu, "
                    "\"requests\": %zu, "
                    "\"cost\": %zu, \"ideal\": %zu, \"worst\": %zu}\n",
                    sites[i].kernel->name, site(sites[i].pc).c_str(), sites[i].space == SHARED ? "shared" : "global",
                    sites[i].write ? "store" : "load", totals[i].bytes, totals[i].requests, totals[i].cost,
                    totals[i].ideal, totals[i].worst);
        if (file) fclose(file);
    }
};
static Report report;
}  // namespace emu
