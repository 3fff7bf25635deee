/* The CUDA runtime's C interface on the host's memory: streams run what they are given at once, or record it. */
#include "fibers.h"
#include "cuda.h"
#include <stdlib.h>
#include <string.h>
#include <functional>
#include <map>
#include <string>
#include <vector>

using namespace emu;
struct CUgraph_st { std::vector<std::function<cudaError_t()>> nodes; };
struct CUgraphExec_st { CUgraph_st graph; };
struct CUstream_st { CUgraph_st *capture; };
struct CUevent_st { int when; };
static CUstream_st legacy = {nullptr};
static cudaError_t last = cudaSuccess;
static Kernel *kernels;
static int current_device;
void emu::add(Kernel *kernel) { kernel->next = kernels; kernels = kernel; }

static cudaError_t forced;      /* what calls return instead of success */
static cudaError_t said(cudaError_t error) { if (!error) error = forced; if (error) last = error; return error; }
extern "C" void emu_fail_with(int error) { forced = (cudaError_t)error; }
extern "C" int emu_blocks(void) { return (int)blocks_left(); }
static int environment(const char *name, int usual) { const char *text = getenv(name); return text ? atoi(text) : usual; }
static const Policy &from_environment()
{
    static bool read;
    if (!read) {
        const char *text = getenv("EMU_POLICY");
        const std::string p = text ? text : "up";
        policy.order = p.find("down") == 0 ? DOWN : p.find("shuffled") == 0 ? SHUFFLED : UP;
        policy.late = p.find("late") != std::string::npos;
        policy.starving = p.find("starving") != std::string::npos;
        dropped = environment("EMU_DROP", dropped);
        read = true;
    }
    return policy;
}
static cudaError_t now_or_later(cudaStream_t stream, std::function<cudaError_t()> work)
{
    CUstream_st *s = stream && stream != cudaStreamLegacy ? stream : &legacy;
    if (!s->capture) return said(work());
    s->capture->nodes.push_back(work);
    return cudaSuccess;
}

/* ---- memory -------------------------------------------------------------------------------------------------- */
static const size_t MOST = (size_t)2 << 30;     /* bytes of a block */
cudaError_t cudaMalloc(void **at, size_t bytes)
{
    static unsigned number;
    *at = nullptr;
    if (forced || bytes > MOST) return said(cudaErrorMemoryAllocation);
    if (bytes) *at = allocate(bytes, "block " + std::to_string(++number));
    return bytes && !*at ? said(cudaErrorMemoryAllocation) : cudaSuccess;
}
extern "C" int emu_malloc(void **at, size_t bytes, const char *name)
{
    *at = allocate(bytes, name);
    return *at ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void *at) { return at && !release_memory(at) ? said(cudaErrorInvalidValue) : cudaSuccess; }
cudaError_t cudaMallocAsync(void **at, size_t bytes, cudaStream_t) { return cudaMalloc(at, bytes); }
cudaError_t cudaFreeAsync(void *at, cudaStream_t) { return cudaFree(at); }
cudaError_t cudaMallocHost(void **at, size_t bytes) { return (*at = malloc(bytes ? bytes : 1)) ? cudaSuccess : said(cudaErrorMemoryAllocation); }
cudaError_t cudaHostAlloc(void **at, size_t bytes, unsigned) { return cudaMallocHost(at, bytes); }
cudaError_t cudaFreeHost(void *at) { free(at); return cudaSuccess; }
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *a, const void *at)
{
    const bool ours = block_at(at) != nullptr;
    a->type = ours ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered, a->device = ours ? 0 : -2;
    a->devicePointer = ours ? (void *)at : nullptr, a->hostPointer = nullptr;
    return cudaSuccess;
}
/* Whether bytes are all in a block of the device, or none of them. */
static bool lies(const void *at, size_t bytes, bool on_device)
{
    const Block *b = block_at(at);
    return on_device ? !bytes || (b && (uintptr_t)at + bytes <= b->start + b->bytes) : !b;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
    if (kind != cudaMemcpyDefault && (!lies(to, bytes, kind & 1) || !lies(from, bytes, kind & 2))) return said(cudaErrorInvalidValue);
    return now_or_later(stream, [=] { memmove(to, from, bytes); return cudaSuccess; });
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) { return cudaMemcpyAsync(to, from, bytes, kind, nullptr); }
cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream)
{
    return now_or_later(stream, [=] { memset(at, value, bytes); return cudaSuccess; });
}
cudaError_t cudaMemset(void *at, int value, size_t bytes) { return cudaMemsetAsync(at, value, bytes, nullptr); }
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) { *free_bytes = *total = (size_t)16 << 30; return cudaSuccess; }

/* ---- kernels ------------------------------------------------------------------------------------------------- */
static Kernel *find(const void *at)
{
    for (Kernel *k = kernels; k; k = k->next) if (k->at == at) return k;
    return nullptr;
}
cudaError_t cudaFuncSetAttribute(const void *at, cudaFuncAttribute attribute, int value)
{
    Kernel *k = find(at);
    if (!k) return said(cudaErrorInvalidDeviceFunction);
    const int most = environment("EMU_ARCH", 80) >= 90 ? 227 << 10 : 163 << 10;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || value + (k->shared_end - k->shared) > most) return said(cudaErrorInvalidValue);
    k->dynamic_bytes = value;
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *at)
{
    Kernel *k = find(at);
    if (!k) return said(cudaErrorInvalidDeviceFunction);
    if (environment("EMU_NO_IMAGE", 0)) return said(cudaErrorNoKernelImageForDevice);
    memset(a, 0, sizeof *a);
    a->sharedSizeBytes = (size_t)(k->shared_end - k->shared), a->maxThreadsPerBlock = k->max_threads ? k->max_threads : 1024;
    a->maxDynamicSharedSizeBytes = k->dynamic_bytes;
    return cudaSuccess;
}
static cudaError_t run(const Kernel *k, dim3 grid, dim3 block, void *const *args, size_t bytes)
{
    from_environment();
    failure.clear();
    begin_launch(k, args);
    running = k, seen = k->seen, dynamic_bytes = bytes;
    std::vector<unsigned char> memory(bytes + 1024);
    dynamic_shared = memory.data() + (1024 - (uintptr_t)memory.data() % 1024);
    block_dim = block, grid_dim = grid;
    count_launch(k, bytes);
    for (unsigned z = 0; z < grid.z && failure.empty(); ++z)
        for (unsigned y = 0; y < grid.y && failure.empty(); ++y)
            for (unsigned x = 0; x < grid.x && failure.empty(); ++x) {
                block_idx.x = x, block_idx.y = y, block_idx.z = z;
                memset(dynamic_shared, 0xff, bytes);
                run_block(k, args);
            }
    running = nullptr, seen = false;
    return failure.empty() ? cudaSuccess : cudaErrorLaunchFailure;
}
cudaError_t cudaLaunchKernel(const void *at, dim3 grid, dim3 block, void **args, size_t bytes, cudaStream_t stream)
{
    Kernel *k = find(at);
    if (!k) return said(cudaErrorInvalidDeviceFunction);
    const unsigned long long count = (unsigned long long)block.x * block.y * block.z;
    if (!grid.x || !grid.y || !grid.z || !count || count > 1024 || block.z > 64 || grid.y > 65535 || grid.z > 65535
        || grid.x > 0x7fffffffu || (k->max_threads && count > (unsigned)k->max_threads))
        return said(cudaErrorInvalidConfiguration);
    if (bytes + (size_t)(k->shared_end - k->shared) > (size_t)(k->dynamic_bytes > 49152 ? k->dynamic_bytes : 49152) + (size_t)(k->shared_end - k->shared)
        || bytes > (size_t)(k->dynamic_bytes > 49152 ? k->dynamic_bytes : 49152) || (k->shared_end - k->shared > 49152 && !k->seen))
        return said(cudaErrorInvalidValue);
    std::vector<std::vector<unsigned char>> kept;
    for (unsigned i = 0; i < k->params; ++i)
        kept.emplace_back((unsigned char *)args[i], (unsigned char *)args[i] + k->sizes[i]);
    return now_or_later(stream, [=]() mutable {
        std::vector<void *> given;
        for (auto &a : kept) given.push_back(a.data());
        return run(k, grid, block, given.data(), bytes);
    });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *, int count, size_t) { *n = 2048 / (count ? count : 1); return cudaSuccess; }

/* ---- streams, events, graphs --------------------------------------------------------------------------------- */
cudaError_t cudaStreamCreate(cudaStream_t *s) { *s = new CUstream_st{nullptr}; return said(cudaSuccess); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned) { return cudaStreamCreate(s); }
cudaError_t cudaStreamDestroy(cudaStream_t s) { delete s; return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t s) { return s && s->capture ? said(cudaErrorStreamCaptureUnsupported) : said(cudaSuccess); }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode)
{
    if (!s) return said(cudaErrorStreamCaptureUnsupported);
    s->capture = new CUgraph_st;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g) { *g = s->capture; s->capture = nullptr; return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status)
{
    *status = s && s->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *e) { *e = new CUevent_st{0}; return said(cudaSuccess); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) { return cudaEventCreate(e); }
cudaError_t cudaEventDestroy(cudaEvent_t e) { delete e; return cudaSuccess; }
static int events;
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t) { e->when = ++events; return said(cudaSuccess); }
cudaError_t cudaEventSynchronize(cudaEvent_t e) { return e->when ? cudaSuccess : said(cudaErrorInvalidValue); }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) { *ms = 2.0f * (float)(to->when - from->when); return cudaSuccess; }
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long) { *e = new CUgraphExec_st{*g}; return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t)
{
    for (auto &node : e->graph.nodes) if (cudaError_t error = node()) return said(error);
    return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *, size_t *n) { *n = g->nodes.size(); return cudaSuccess; }
cudaError_t cudaGraphDestroy(cudaGraph_t g) { delete g; return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e) { delete e; return cudaSuccess; }

/* ---- devices and errors -------------------------------------------------------------------------------------- */
cudaError_t cudaGetLastError(void) { const cudaError_t e = last; last = cudaSuccess; return e; }
cudaError_t cudaPeekAtLastError(void) { return last; }
const char *cudaGetErrorName(cudaError_t e)
{
    static const std::map<int, const char *> names = {
        {cudaSuccess, "cudaSuccess"}, {cudaErrorInvalidValue, "cudaErrorInvalidValue"},
        {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation"}, {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver"},
        {cudaErrorNoDevice, "cudaErrorNoDevice"}, {cudaErrorLaunchFailure, "cudaErrorLaunchFailure"}};
    const auto found = names.find(e);
    return found == names.end() ? "cudaError" : found->second;
}
const char *cudaGetErrorString(cudaError_t e)
{
    static std::string text;
    text = e ? "emulated error " + std::to_string((int)e) : "no error";
    if (e == cudaErrorInsufficientDriver) text = "CUDA driver version is insufficient";
    if (e == cudaErrorLaunchFailure) text += ": " + failure;
    return text.c_str();
}
cudaError_t cudaRuntimeGetVersion(int *v) { *v = CUDART_VERSION; return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int *v) { *v = CUDART_VERSION; return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *n) { *n = 1; return said(cudaSuccess); }
cudaError_t cudaGetDevice(int *d) { *d = current_device; return cudaSuccess; }
cudaError_t cudaSetDevice(int d) { return said(d ? cudaErrorInvalidDevice : cudaSuccess); }
cudaError_t cudaDeviceReset(void) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize(void) { return said(cudaSuccess); }
cudaError_t cudaDeviceGetAttribute(int *v, cudaDeviceAttr a, int)
{
    const int arch = environment("EMU_ARCH", 80);
    const std::map<int, int> known = {
        {cudaDevAttrMaxThreadsPerBlock, 1024}, {cudaDevAttrWarpSize, 32}, {cudaDevAttrMultiProcessorCount, 108},
        {cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10}, {cudaDevAttrComputeCapabilityMajor, arch / 10},
        {cudaDevAttrComputeCapabilityMinor, arch % 10}, {cudaDevAttrMaxSharedMemoryPerBlockOptin, arch >= 90 ? 227 << 10 : 163 << 10},
        {cudaDevAttrMaxRegistersPerBlock, 65536}, {cudaDevAttrClockRate, 1410000}, {cudaDevAttrL2CacheSize, 40 << 20}};
    auto found = known.find(a);
    if (found == known.end()) return said(cudaErrorInvalidValue);
    *v = found->second;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
    memset(p, 0, sizeof *p);
    strcpy(p->name, "emulated device");
    p->totalGlobalMem = (size_t)16 << 30, p->sharedMemPerBlock = 48 << 10, p->maxThreadsPerBlock = 1024;
    p->major = environment("EMU_ARCH", 80) / 10, p->minor = environment("EMU_ARCH", 80) % 10, p->multiProcessorCount = 108;
    return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **f, unsigned, unsigned long long, cudaDriverEntryPointQueryResult *r)
{
    const bool known = !strcmp(name, "cuTensorMapEncodeTiled");
    *f = known ? (void *)&cuTensorMapEncodeTiled : nullptr;
    *r = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
