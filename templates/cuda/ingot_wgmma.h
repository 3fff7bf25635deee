/* ingot_wgmma.h: the asynchronous products of a warpgroup that this network uses (sm_90a).
 *
 * ingot_wgmma_m64n128k16_f16_f32(d, a, b, add): d = a b, with add, 1 or 0, d = d + a b; a 64 x 16 and b 128 x 16 are
 * tiles in shared memory, both along k, as ingot_wgmma_tile describes them. Of float16 and bfloat16 k is 16, of TF32 8,
 * of int8 32: 32 bytes. The 4 warps of a warpgroup have 16 rows of d each; of these, d[i] of a lane is that in row
 * lane / 4 + i / 2 % 2 * 8, column i / 4 * 8 + lane % 4 * 2 + i % 2. With _ra the lane's part of a is in registers,
 * 4 words as ingot_mma.h lays them out for the rows of its warp. */
#ifndef INGOT_WGMMA_H
#define INGOT_WGMMA_H

#include "ingot_tma.h"

#if defined(__CUDACC__)

[% for p in products %]
INGOT_DEVICE void [[ p.name ]]([[ p.ctype ]] *d, [[ p.a ]], uint64_t b, int add)
{
[% if p.registers %]
    const uint32_t *const x = (const uint32_t *)a;
    (void)x;
[% endif %]
    INGOT_SM_90A(asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %[[ p.add ]], 0;\n"
                              "wgmma.mma_async.sync.aligned.[[ p.ptx ]] {"
[% for line in p.places %]
                              "[[ line ]]"
[% endfor %]
                              "[[ p.operands ]];\n}"
[% for line in p.sums %]
                              [[ ": " if loop.first else "  " ]][[ line ]]
[% endfor %]
                              : [[ p.inputs ]], "r"(add)));
}
[% endfor %]

#else

[% for p in products %]
void [[ p.name ]]([[ p.ctype ]] *d, [[ p.a ]], uint64_t b, int add);
[% endfor %]

#endif

#endif /* INGOT_WGMMA_H */
