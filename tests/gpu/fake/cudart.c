/* What Python calls of CUDA's runtime, over the host's memory: one device, whose streams do all at once. Test only. It
 * refuses copies that reach beyond its blocks, and counts those that are left. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 256 };
static struct { unsigned char *at; size_t size; } blocks[BLOCKS];
static int events, error;

void fake_fail_with(int code) { error = code; } /* what every call returns from now on */
int fake_blocks(void)
{
    int count = 0;
    for (int i = 0; i < BLOCKS; ++i) count += blocks[i].at != NULL;
    return count;
}

const char *cudaGetErrorName(int code)
{
    return code == 35 ? "cudaErrorInsufficientDriver" : code == 100 ? "cudaErrorNoDevice" : code == 2
        ? "cudaErrorMemoryAllocation" : "cudaErrorInvalidValue";
}
const char *cudaGetErrorString(int code) { return code == 35 ? "CUDA driver version is insufficient" : "not possible"; }
int cudaGetDeviceCount(int *count) { *count = 1; return error; }
int cudaSetDevice(int device) { return error ? error : device != 0; }
int cudaDeviceSynchronize(void) { return error; }
int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = attribute == 75 ? 8 : attribute == 76 ? 0 : attribute;
    return device != 0;
}
int cudaDriverGetVersion(int *version) { *version = 13000; return 0; }
int cudaRuntimeGetVersion(int *version) { *version = 13000; return 0; }

int cudaMalloc(void **p, size_t size)
{
    if (error) return error;
    if (size > (size_t)1 << 30) return 2;
    for (int i = 0; i < BLOCKS; ++i)
        if (blocks[i].at == NULL) {
            blocks[i].at = aligned_alloc(256, (size + 255) / 256 * 256);
            blocks[i].size = size;
            memset(blocks[i].at, 0xff, size); /* NaN */
            *p = blocks[i].at;
            return 0;
        }
    return 2;
}
int cudaFree(void *p)
{
    for (int i = 0; i < BLOCKS; ++i)
        if (p != NULL && blocks[i].at == p) {
            free(p);
            blocks[i].at = NULL;
            return 0;
        }
    return p != NULL;
}
static int inside(const void *p, size_t size)
{
    for (int i = 0; i < BLOCKS; ++i)
        if (blocks[i].at != NULL && (const unsigned char *)p >= blocks[i].at
            && (const unsigned char *)p + size <= blocks[i].at + blocks[i].size) return 1;
    return 0;
}
int cudaMemcpy(void *dst, const void *src, size_t size, int kind)
{
    if (error) return error;
    if (inside(dst, size) != (kind == 1 || kind == 3) || inside(src, size) != (kind == 2 || kind == 3)) return 1;
    memmove(dst, src, size);
    return 0;
}
int cudaMemcpyAsync(void *dst, const void *src, size_t size, int kind, void *stream)
{
    (void)stream;
    return cudaMemcpy(dst, src, size, kind);
}
int cudaMemGetInfo(size_t *available, size_t *total) { *available = 1000; *total = 2000; return 0; }
int cudaStreamCreate(void **stream) { *stream = malloc(1); return error; }
int cudaStreamDestroy(void *stream) { free(stream); return 0; }
int cudaStreamSynchronize(void *stream) { (void)stream; return error; }
int cudaEventCreate(void **event) { *event = calloc(1, sizeof(int)); return error; }
int cudaEventDestroy(void *event) { free(event); return 0; }
int cudaEventRecord(void *event, void *stream) { (void)stream; *(int *)event = ++events; return error; }
int cudaEventSynchronize(void *event) { return *(int *)event == 0; }
int cudaEventElapsedTime(float *ms, void *from, void *to) { *ms = (float)(*(int *)to - *(int *)from) * 2.0f; return 0; }
