"""tvm.lower and tvm.build: from functions and schedules to lowered programs and modules of C."""
from __future__ import annotations

from collections.abc import Mapping

from ..codegen.module import make_module
from ..codegen.target import Target, with_code
from ..ir.module import GlobalVar, IRModule
from ..ir.relax.expr import Function
from ..ir.te.tensor import Tensor
from ..ir.tir.bounds import check_bounds
from ..ir.tir.buffer import Buffer, substitute_buffers
from ..ir.tir.function import PrimFunc
from ..ir.tir.signatures import completed
from ..ir.transform.classic.extract_constants import bind_constants
from ..ir.transform.classic.intrin_rules import lower_by_rules
from ..ir.transform.classic.inline import inline_private_functions
from ..ir.transform.context import PassContext
from ..ir.transform.pass_table import TIR
from ..ir.node import collect, structural_equal
from ..ir.tir.stmt import AttrStmt, For
from ..ir.transform.pipeline import TIR_PASSES, lower_module, pipeline_for
from ..ir.transform.start_sums import start_sums
from ..ir.transform.store_result import store_result
from ..runtime.module import Module
from .te.schedule import Schedule

# What makes loops hard to read: simple_mode leaves it out, as TVM's does.
_NOT_SIMPLE = ("LoopPartition", "InferFragment", "LowerDeviceOps")
# Phase 0 of a script's own passes is before all others, phase 3 after them.
_PHASE_ENDS = {1: "FlattenBuffer", 2: "UnrollLoop"}


def lower(inp, args=None, name="main", binds=None, simple_mode=False):
    """The lowered program of an IRModule, a PrimFunc or a te.Schedule with its `args`: an IRModule of flat PrimFuncs.

    Where `args` has no output of a schedule, its outputs follow them, so that there is something to look at.
    name: of the function made from a schedule. binds: {tensor: the Buffer that stands for it}, which may say strides,
    offset and alignment. simple_mode: without partitioned loops and
    with fragments as they are scheduled, for people. Raises TypeError, or the ValueError of the pass that cannot go on.
    """
    if isinstance(inp, Schedule) and args is not None:
        args = _with_outputs(inp, _as_tensors(args, binds))
    functions = _functions(inp, args, name, binds)
    kind = "cuda" if any(map(_is_bound, functions.values())) else "c"
    passes = [p for p in _passes(kind) if not (simple_mode and p.name in _NOT_SIMPLE)]
    return _lowered(functions, passes)


def build(inp, args=None, target=None, target_host=None, name="default_function", binds=None):
    """A Module of an IRModule, a PrimFunc or a te.Schedule with its `args`; lowered ones may be among them.

    target: "c" and "llvm" mean C for this machine, as does "llvm -mcpu=..." for another; also a row of Target. The
    default is the `with tvm.target.Target(...):` around, or this machine. For "cuda" and "opencl", whose loops are
    bound to threads, the kernels are imported_modules[0].get_source(), and a call needs the device.
    A module's target may stand in the place of args. target_host: accepted where it means the same. name: of the
    function made from a schedule.
    The code is compiled at the first call. Raises TypeError, TargetError, or the ValueError of what cannot be built.
    """
    if target is None and isinstance(args, (str, Target)):  # build(mod, target), as of TVM 0.20
        args, target = None, args
    chosen = with_code(host_target(target or Target.current() or "c"))
    if target_host is not None:
        host_target(target_host)
    kind = str(chosen.kind)
    functions = {n: lower_by_rules(f, kind) for n, f in _functions(inp, args, name, binds).items()}
    functions = _lowered(functions, _passes(kind)).functions
    if chosen.kind != "c":
        from ..codegen.device_module import make_device_module
        from ..runtime.gpu_module import GpuModule
        return GpuModule(make_device_module(functions, chosen, _entry(functions)))
    return Module(make_module(functions, chosen, _entry(functions)))


def _with_outputs(schedule, args):
    """The arguments, then the outputs of a schedule where none of these is among them."""
    stages = [schedule.stage_map.get(getattr(a, "op", None)) for a in args]
    if any(stage is not None and stage.is_output for stage in stages):
        return args
    return [*args, *(op.output(n) for op in schedule.outputs for n in range(op.num_outputs))]


def _is_bound(func):
    """Whether a loop of a function is bound to threads."""
    return any(s.kind == "thread_binding" if isinstance(s, For) else s.attr_key == "thread_extent"
               for s in collect(func.body, (For, AttrStmt)))


def _passes(kind):
    """The pipeline of a kind of target, and the passes of the PassContext's config "tir.add_lower_pass" after what ends
    their phases."""
    own = PassContext.current().config.get("tir.add_lower_pass", ())
    passes = [p for phase, p in own if phase == 0]
    for p in TIR_PASSES if kind == "c" else pipeline_for(kind):
        passes += [p, *(mine for phase, mine in own if _PHASE_ENDS.get(phase) == p.name)]
    return passes + [p for phase, p in own if phase == 3]


def host_target(target):
    """The Target that "c", "llvm -mcpu=..." or a row's name means for tvm.build, where "c" is this machine's C."""
    return Target.get("llvm" + target[1:] if isinstance(target, str) and target.split()[:1] == ["c"] else target)


def _functions(inp, args, name, binds):
    """{name: PrimFunc} of what tvm.build takes."""
    if isinstance(inp, Schedule):
        if args is None:
            raise ValueError("a te.Schedule is lowered for the list of its arguments: args=[A, B, ...]")
        return {name: _of_schedule(inp, _as_tensors(args, binds), name, binds or {})}
    if args is not None or binds is not None:
        raise ValueError(f"args and binds go with a te.Schedule; a {type(inp).__name__} has its own parameters")
    if isinstance(inp, PrimFunc):
        return {inp.attrs.get("global_symbol", name): inp}
    if isinstance(inp, Function):
        raise TypeError("a relax function is a network: ingot.compile(mod) casts it")
    if not isinstance(inp, IRModule):
        raise TypeError(f"expected an IRModule, a PrimFunc or a te.Schedule, not a {type(inp).__name__}")
    graphs = [n for n, f in inp.functions.items() if not isinstance(f, PrimFunc)]
    if graphs:
        raise TypeError(f"the module has the relax function {graphs[0]!r}: ingot.compile(mod) casts networks, "
                        "tvm.build modules of PrimFuncs")
    if not inp.functions:
        raise ValueError("the module has no function")
    found = {}
    for n, f in inline_private_functions(bind_constants(inp)).functions.items():
        calls = collect(f.body, GlobalVar)
        if calls:
            raise ValueError(f"function {n} calls {calls[0].name} of its module, which cannot be inlined: that takes "
                             "private functions without buffers, blocks and results, which do not call themselves")
        symbol = f.attrs.get("global_symbol", n)
        if symbol in found:
            raise ValueError(f"two functions of the module have the global_symbol {symbol!r}: give one another, "
                             "func.with_attr('global_symbol', name)")
        found[symbol] = f
    return found


def _as_tensors(args, binds):
    """The arguments, with their tensors for the buffers that `binds`, {tensor: buffer}, gives some of them."""
    if not isinstance(binds, (Mapping, type(None))):
        raise TypeError(f"binds is {{tensor: Buffer}}, not a {type(binds).__name__}")
    tensors = {id(buffer): tensor for tensor, buffer in (binds or {}).items()}
    return [tensors.get(id(a), a) for a in args]


def _of_schedule(schedule, args, name, binds):
    """The scheduled PrimFunc of `args`, with the buffers that `binds` gives some of them."""
    func, changes = schedule.to_prim_func(args, name), {}
    places = {a.key: n for n, a in enumerate(args) if isinstance(a, Tensor)}
    for tensor, buffer in binds.items():
        if not isinstance(buffer, Buffer) or not isinstance(tensor, Tensor) or tensor.key not in places:
            raise ValueError(f"binds is {{tensor among the arguments: Buffer}}, not {{{tensor!r}: {buffer!r}}}")
        if any(other is buffer or other.data is buffer.data for other in changes.values()):
            raise ValueError(f"binds: buffer {buffer.name} has the memory of another one; each tensor has its own")
        if buffer.dtype != tensor.dtype or not structural_equal(buffer.shape, tensor.shape):
            raise ValueError(f"binds: buffer {buffer.name} is {buffer.dtype} of {buffer.shape}, tensor {tensor.name} "
                             f"{tensor.dtype} of {tensor.shape}")
        changes[func.buffer_map[func.params[places[tensor.key]]]] = buffer
    return substitute_buffers(func, changes)


def _lowered(functions, passes):
    """The module of {name: PrimFunc} after the passes; those with a signature are lowered already."""
    new = {n: store_result(start_sums(check_bounds(completed(f)))) for n, f in functions.items() if not f.signature}
    lowered = lower_module(IRModule(new), [TIR["MakePackedAPI"](), *passes]).functions if new else {}
    return IRModule({n: lowered.get(n, f) for n, f in functions.items()})


def _entry(functions):
    """The name of the function that stands for the module: marked as such, the only one, or main."""
    marked = [n for n, f in functions.items() if f.attrs.get("tir.is_entry_func")]
    if marked or len(functions) == 1:
        return (marked or list(functions))[0]
    return "main" if "main" in functions else ""
