/* Which memory a kernel may touch, and what it is called. */
#include "fibers.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <map>
#include <set>

namespace emu {
size_t dynamic_bytes;
static const size_t GUARD = 4096;
static std::map<uintptr_t, Block> blocks;
static const Block *last;           /* that was asked for */
static std::vector<Extent> extents; /* of the launch's parameters, if their sizes are known */
static bool all_extents;
struct Array {
    const Kernel *kernel;
    std::string name;
    const unsigned char *at;
    size_t bytes;
};
static std::vector<Array> arrays; /* in static shared memory */

/* ---- the device's memory --------------------------------------------------------------------------------------- */
void *allocate(size_t bytes, const std::string &name)
{
    unsigned char *at;
    if (posix_memalign((void **)&at, 256, bytes + 2 * GUARD)) return nullptr;
    memset(at, 0xff, bytes + 2 * GUARD);
    blocks[(uintptr_t)at + GUARD] = {name, (uintptr_t)at + GUARD, bytes};
    return at + GUARD;
}
bool release_memory(void *at)
{
    last = nullptr;
    if (!blocks.erase((uintptr_t)at)) return false;
    free((unsigned char *)at - GUARD);
    return true;
}
unsigned blocks_left() { return (unsigned)blocks.size(); }
const Block *block_at(const void *at)
{
    if (last && (uintptr_t)at - last->start < last->bytes) return last;
    auto next = blocks.upper_bound((uintptr_t)at);
    if (next == blocks.begin() || (uintptr_t)at >= std::prev(next)->second.start + std::prev(next)->second.bytes)
        return nullptr;
    return last = &std::prev(next)->second;
}

bool shared_array(const char *name, const void *at, size_t bytes)
{
    for (auto &a : arrays)
        if (a.at == at) return true;
    arrays.push_back({running, name, (const unsigned char *)at, bytes});
    return true;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */
static std::string plus(const std::string &name, long offset)
{ return name + (offset < 0 ? " - " : " + ") + std::to_string(offset < 0 ? -offset : offset); }
static bool in_static(const unsigned char *at) { return running && at >= running->shared && at < running->shared_end; }
static const Array *array_before(const unsigned char *at)
{
    const Array *found = nullptr;
    for (auto &a : arrays)
        if (a.kernel == running && a.at <= at && (!found || found->at < a.at)) found = &a;
    return found;
}
std::string named(const void *p)
{
    const unsigned char *at = (const unsigned char *)p;
    if (at >= dynamic_shared && at < dynamic_shared + dynamic_bytes)
        return plus("dynamic shared memory", at - dynamic_shared);
    if (in_static(at))
        if (const Array *a = array_before(at)) return plus(a->name, at - a->at);
    const Extent *near = nullptr;
    for (auto &e : extents)
        if (at >= e.at - GUARD && at < e.at + e.bytes + GUARD
            && (!near || near->at < e.at || (at < near->at && e.at <= at)))
            near = &e;
    if (near) return plus(near->name, at - near->at);
    for (auto &b : blocks)
        if ((uintptr_t)at >= b.first - GUARD && (uintptr_t)at < b.first + b.second.bytes + GUARD)
            return plus(b.second.name, (long)((uintptr_t)at - b.first));
    return "memory that is nobody's";
}
static uint32_t dynamic_start() { return (uint32_t)((running->shared_end - running->shared + 1023) / 1024 * 1024); }
uint32_t shared_address(const void *p)
{
    const unsigned char *at = (const unsigned char *)p;
    return in_static(at) ? (uint32_t)(at - running->shared) : dynamic_start() + (uint32_t)(at - dynamic_shared);
}
unsigned char *shared_pointer(uint32_t address)
{ return address < dynamic_start() ? running->shared + address : dynamic_shared + (address - dynamic_start()); }
std::string thread_name(unsigned agent)
{
    const unsigned n = (unsigned)(block_dim.x * block_dim.y * block_dim.z), x = block_dim.x, y = block_dim.y,
                   t = agent % n;
    if (agent >= 2 * n) return "an asynchronous copy";
    std::string name =
        "thread (" + std::to_string(t % x) + ", " + std::to_string(t / x % y) + ", " + std::to_string(t / x / y) + ")";
    return agent < n ? name : "asynchronous work of " + name;
}
std::string site(const void *pc)
{
    Dl_info info;
    if (!pc || !dladdr(pc, &info) || !info.dli_fname) return "";
    char command[600], line[600] = "";
    const bool fixed = ((const unsigned char *)info.dli_fbase)[16] == 2; /* an executable that is not moved */
    snprintf(command, sizeof command, "addr2line -e '%s' 0x%lx 2>/dev/null", info.dli_fname,
             (unsigned long)((uintptr_t)pc - 1 - (fixed ? 0 : (uintptr_t)info.dli_fbase)));
    if (FILE *f = popen(command, "r")) {
        if (!fgets(line, sizeof line, f)) line[0] = 0;
        pclose(f);
    }
    std::string s = line;
    s = s.substr(s.rfind('/') + 1);
    s = s.substr(0, s.find_first_of(" \n"));
    return s.find('?') == std::string::npos ? s : "";
}

static std::set<std::pair<const void *, const void *>> told;
void fault(const std::string &what, const void *pc, const void *other)
{
    if (!told.insert({pc, other}).second) return;
    const std::string here = site(pc), there = other && other != pc ? site(other) : "";
    fail(what + (here.empty() ? "" : " (" + here + (there.empty() ? "" : ", " + there) + ")"));
}

/* ---- a launch --------------------------------------------------------------------------------------------------- */
void begin_launch(const Kernel *kernel, void *const *args)
{
    ++launch_number;
    told.clear();
    extents.clear();
    if (kernel->extents)
        kernel->extents(args, [](const char *name, const void *at, size_t bytes) {
            extents.push_back({name, (const unsigned char *)at, bytes});
        });
    all_extents = kernel->pointers && extents.size() == kernel->pointers;
}

/* Whether all of an access lies in memory of the kernel, in which space, else what to say. */
bool allowed(const unsigned char *at, size_t bytes, Space *space)
{
    if (at >= dynamic_shared && at < dynamic_shared + dynamic_bytes) {
        *space = SHARED;
        return at + bytes <= dynamic_shared + dynamic_bytes;
    }
    if (in_static(at)) {
        const Array *a = array_before(at);
        *space = SHARED;
        return arrays.empty() || (a && at + bytes <= a->at + a->bytes);
    }
    *space = GLOBAL;
    if (all_extents) {
        for (auto &e : extents)
            if (at >= e.at && at + bytes <= e.at + e.bytes) return true;
        return false;
    }
    const Block *b = block_at(at);
    return b && (uintptr_t)at + bytes <= b->start + b->bytes;
}
}  // namespace emu
