/* [[ file ]]: [[ what ]], placed in read-only memory without passing through the C compiler.
 *
 * [[ stamp ]]
 */
    .section .rodata
    .balign 64
    .globl [[ symbol ]]
    .type [[ symbol ]], %object
[[ symbol ]]:
    .incbin "[[ blob ]]"
    .balign 64
    .size [[ symbol ]], . - [[ symbol ]]
    .section .note.GNU-stack, "", %progbits
