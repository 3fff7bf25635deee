/* [[ file ]]: [[ what ]], placed in read-only memory without passing through the C compiler.
 *
 * [[ stamp ]]
 */
#if defined(__wasm__)
    .section .rodata.[[ symbol ]], "", @
    .balign 64
    .globl [[ symbol ]]
    .type [[ symbol ]], @object
[[ symbol ]]:
    .incbin "[[ blob ]]"
    .size [[ symbol ]], [[ bytes ]]
#else
[% if placed and placed != "WEIGHTS" %]
#if defined(INGOT_SECTION_[[ placed ]])
#undef INGOT_SECTION_WEIGHTS
#define INGOT_SECTION_WEIGHTS INGOT_SECTION_[[ placed ]]
#endif
[% endif %]
[% if placed %]
#if defined(INGOT_SECTION_WEIGHTS)
    .section INGOT_SECTION_WEIGHTS, "a", %progbits
#else
[% endif %]
[% if large %]
#if defined(__x86_64__) && defined(__clang__) && __clang_major__ < 17 /* whose assembler has no flag "l" */
    .section .lrodata, "a", @progbits
#elif defined(__x86_64__) /* beyond what code reaches in 2 GB: link with a program that is built with -mcmodel=medium */
    .section .lrodata, "al", @progbits
#else
    .section .rodata
#endif
[% else %]
    .section .rodata
[% endif %]
[% if placed %]
#endif
[% endif %]
    .balign 64
    .globl [[ symbol ]]
    .type [[ symbol ]], %object
[[ symbol ]]:
0:
    .incbin "[[ blob ]]"
    .balign 64
    .size [[ symbol ]], . - 0b
    .section .note.GNU-stack, "", %progbits
#endif
