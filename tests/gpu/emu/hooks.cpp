/* What g++ -fsanitize=thread has a kernel call before each access; the tool's own library is not linked. */
#include "fibers.h"
#define PC __builtin_return_address(0)
using namespace emu;
extern "C" {
void __tsan_init(void) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
void __tsan_read_range(void *p, size_t n) { touch(p, n, READ, PC); }
void __tsan_write_range(void *p, size_t n) { touch(p, n, WRITE, PC); }
#define HOOKS(n)                                                                                                       \
    void __tsan_read##n(void *p) { touch(p, n, READ, PC); }                                                            \
    void __tsan_write##n(void *p) { touch(p, n, WRITE, PC); }                                                          \
    void __tsan_unaligned_read##n(void *p) { touch(p, n, READ, PC); }                                                  \
    void __tsan_unaligned_write##n(void *p) { touch(p, n, WRITE, PC); }                                                \
    void __tsan_volatile_read##n(void *p) { touch(p, n, VOLATILE_READ, PC); }                                          \
    void __tsan_volatile_write##n(void *p) { touch(p, n, VOLATILE_WRITE, PC); }                                        \
    void __tsan_unaligned_volatile_read##n(void *p) { touch(p, n, VOLATILE_READ, PC); }                                \
    void __tsan_unaligned_volatile_write##n(void *p) { touch(p, n, VOLATILE_WRITE, PC); }
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)
}
