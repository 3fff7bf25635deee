"""How much stack a run takes: what its arrays are known to, and what compilers and systems are allowed beside them."""
from __future__ import annotations

from ..ir.expr import Call
from ..ir.node import collect
from ..ir.transform.scratch import deepest
from .micro_kernels import micro_kernel

ALIGN = 64
# Measured with gcc 12 and clang 14 at -O1, -O2, -O3 and -Os (tests/codegen/test_stack.py), with room above:
RUN_BYTES, POINTER_BYTES = 512, 16   # NAME_run and the function of its threads; each pointer that they hold
FRAME_BYTES = 512                    # saved registers, variables and alignment of a kernel
REGISTER_FILES = 2                   # of vectors, that a kernel may move to the stack and back
# OpenMP's runtime between NAME_run and the function of its threads, and what hosts may take in a call of the C library:
# the loader, which binds a function when it is first called, saves all registers.
TEAM_BYTES, LIBRARY_BYTES, SMALL_LIBRARY_BYTES = 2048, 4096, 256
SMALL_STACK = 4096                   # of targets whose programs have no loader
HOST_STACK = 16 << 10                # what a run may take by default where a system runs its threads


class StackError(ValueError):
    """A network needs more stack than it is allowed to take."""


def stack_bytes(func):
    """Bytes that a kernel's arrays take, and with them the functions of the runtime that it calls."""
    calls = [call for call in collect(func.body, Call) if call.op == "tir.call_extern"]
    return deepest(func.body)[0] + max((micro_kernel(call).stack for call in calls), default=0)


def around_kernels(target, threads, pointers):
    """Bytes that a run takes beside the arrays of its kernels. pointers: how many tensors it holds pointers to."""
    library = LIBRARY_BYTES if default_limit(target, threads) > SMALL_STACK else SMALL_LIBRARY_BYTES
    team = TEAM_BYTES if threads == "openmp" else 0
    spilled = REGISTER_FILES * target.register_bytes
    return RUN_BYTES + POINTER_BYTES * pointers + FRAME_BYTES + spilled + library + team


def default_limit(target, threads):
    """Bytes of stack that a run may take of each thread by default. A machine with OpenMP is no small one."""
    return max(target.threads.stack_bytes, HOST_STACK) if threads == "openmp" else target.threads.stack_bytes


def bytes_for_arrays(target, threads, pointers, limit=None):
    """Bytes that the arrays of a kernel may take of a limit, by default the target's."""
    return max((limit or default_limit(target, threads)) - around_kernels(target, threads, pointers), 0)


def run_stack(target, threads, pointers, kernels, limit=None):
    """Bytes of stack that a run takes of each thread, at most. Raises StackError where that is more than `limit`."""
    most = max(kernels, key=lambda k: k.stack, default=None)
    arrays = most.stack if most else 0
    total = -(-(around_kernels(target, threads, pointers) + arrays) // ALIGN) * ALIGN
    if limit is not None and total > limit:
        raise StackError(f"the network takes up to {total} bytes of stack, {arrays} of them for the arrays of "
                         f"{most.function.name if most else 'no kernel'}: more than stack_limit={limit}; "
                         f"allow as many: --stack-limit {total}")
    return total
