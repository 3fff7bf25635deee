"""The Python API: compile, verify and inspect a network. Each function is a few lines over the layers below."""
from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from onnx import TensorProto, numpy_helper

from .codegen.c_names import PROGRAMS
from .codegen.compile import STAGES, Options, assemble, compile_for_each, compile_module, lower, printed_functions
from .codegen.describe import error_bounds
from .codegen.dispatch import targets_of
from .codegen.kernels import find_kernels, kernel_names, print_kernel
from .codegen.memory_plan import HOST
from .codegen.package import evaluate_dim
from .codegen.program_text import program_text
from .codegen.recorded import Record, as_text, kernel_hash
from .frontend.onnx import UndeclaredInput, from_onnx, model_inputs
from .ir.module import IRModule
from .ir.relax.accuracy import PROMISES
from .ir.relax.expr import Function
from .ir.schedule.plan import ATTRIBUTE
from .ir.tir.function import PrimFunc
from .ir.transform.alias import alias_outputs
from .ir.transform.as_network import as_network
from .ir.transform.classic.legalize_ops import legalize_for_builds
from .ir.transform.expose import expose_intermediates
from .runtime.board import BoardLibrary
from .runtime.cuda_library import CudaLibrary
from .runtime.dispatched import DispatchedLibrary
from .runtime.emulated import EmulatedLibrary, is_emulated
from .runtime.executable import Executable, ModuleLibrary, is_one_network
from .runtime.library import CompiledLibrary
from .runtime.opencl import OpenCLLibrary
from .runtime.structured import LibraryByShape, structured
from .runtime.values import accept
from .runtime.verify import compare_outputs
from .tvm.driver import build
from .tvm.relax.pipeline import applied

accept(TensorProto, numpy_helper.to_array, numpy_helper.from_array)


def _is_program(model):
    """Whether a model is no network, but loops alone."""
    functions = model.functions.values() if isinstance(model, IRModule) else (model,)
    return bool(functions) and all(isinstance(f, PrimFunc) for f in functions)


def compile(model, target="host", opt_level=2, threads=None, weights=None, name=None, dims=None,  # noqa: A001
            exact=False, algorithms=None, schedules=None, stack_limit=None, accuracy=None, byte_order=None,
            bounds=None, aliases=None, shapes=None, dtype="float32", requantize="float",
            ram_limit=None, flash_limit=None, memory=None, weight_groups=1, arithmetic=None, relax_pipeline="default",
            tir_pipeline="default"):
    """A network as a callable library.

    model: a path to an ONNX file, an onnx.ModelProto, or an IRModule with a graph function "main", or with only one.
    A PrimFunc, and a module of such alone, is a program of one's own: what tvm.build(model, target) makes of it is
    returned.
    target: a row of ingot.Target, of which ingot.Target.names() has all: "host", "x86-64-v4", "cortex-m4f", "c",
    "cuda-sm_80", "opencl". "x86-64-v3+x86-64-v4": code for each, of which the exported C takes the best that the
    processor runs, as does the library.
    opt_level: 0 lowers as imported, 1 folds and fuses, 2 also packs weights and tiles for registers.
    threads: "openmp" (OMP_NUM_THREADS holds) or "none"; by default threads where the target has a system to run them.
    weights: "incbin", "array", "file", "extern" or "stream"; by default "incbin", without a system "array".
    byte_order: "little" or "big", of weights in files; None: the target's.
    dtype: "float16" or "bfloat16": what a float32 model is computed in, with sums of float32.
    arithmetic: "fp16": where a kernel's floats are float16, it computes in these, sums among it, eight at a time, on
    targets that can (docs/accuracy.md). By default sums are float32.
    requantize: "float" scales sums of quantized tensors as onnxruntime does, bit by bit; "fixed" as CMSIS-NN, by an
    integer and a shift, without a float (ir/relax/ops/requantize.py has the roundings).
    name: prefix of all C names; default the model's. dims: {"batch": 1} pins symbolic dimensions.
    bounds: {"boxes_count": 100}: how large dimensions that a run decides are at most, where nothing else says so.
    aliases: {"present.*": "past_key_values.*"}: outputs that lie in the memory of inputs, which a run extends there
    (ir/transform/alias.py).
    shapes: {"x": (1, "n", 3)}: of inputs whose declaration leaves the shape open; for a sequence a list of its
    elements' shapes, for an optional value that is absent None. Without them a network with such inputs is compiled
    when it is called, for the shapes of that call.
    accuracy: "float32" (default), "strict" or "relaxed", see ir/relax/accuracy.py. exact=True: "strict", deprecated.
    algorithms: {"conv1": "winograd4"} overrides the choice for convolutions, by the names of their nodes, also where
    it keeps less than the accuracy promises, but that "strict" admits "direct" alone: "direct",
    or "winogradM" for tiles of M x M results: 2 to 6 for kernels of 3x3, to 5 for 4x4 (of strides), to 4 for 5x5; or
    "split_integer", for kernels of 1x1, where the target has a unit for tiles of integers, or "inner_product", where it
    has units for additions; "winogradM_split_integer" and "winogradM_inner_product".
    schedules: {"conv1": trace or plan} overrides the schedules of kernels; see recorded_schedules and recorded_plans.
    stack_limit: bytes of stack that a run may take of each thread; by default 16 KB, for the target "c" 2 KB.
    ram_limit: bytes that arena, stack, inputs and outputs may take; flash_limit: bytes of weights as they are stored.
    Where more is needed, the network is compiled without larger and faster forms (codegen/limits.py), or refused.
    memory: {"dtcm": 65536, "sram": "256K"}, the fastest first: memories that the arena is spread over, each an argument
    of NAME_init.
    weight_groups: files that embedded weights are divided among, in the order of layers.
    relax_pipeline, tir_pipeline: of an IRModule, as relax.build takes them (tvm/relax/vm.py).

    Returns a CompiledLibrary: call it, .run({...}), .export(folder), .time(...). The C is built at the first run. Of an
    IRModule with several graph functions and no "main", or whose values are no tensors, it is an Executable, as
    relax.build gives.
    Raises OnnxImportError, ValueError or ToolchainError.
    """
    if isinstance(model, IRModule):
        model = applied(model, target, relax_pipeline, tir_pipeline)
    if _is_program(model):
        return build(model, target=target)
    model = legalize_for_builds(model) if isinstance(model, IRModule) else model
    options = tuple(Options.check(t, opt_level, threads, weights, name, exact, algorithms, schedules, stack_limit,
                                  accuracy, byte_order, dtype, requantize, ram_limit, flash_limit, memory,
                                  weight_groups, arithmetic)
                    for t in targets_of(target))
    if isinstance(model, IRModule) and len(options) == 1 and not is_one_network(model):
        return Executable(model, options[0])
    try:
        mod = load(model, dims, name, bounds, aliases, shapes)
    except UndeclaredInput as error:
        compile_for = partial(_compiled, model, options, dims, name, bounds, aliases)
        return LibraryByShape(model_inputs(model), compile_for, shapes, error)
    return _library(mod, options, model)


def _compiled(model, options, dims, name, bounds, aliases, shapes):
    return _library(load(model, dims, name, bounds, aliases, shapes), options, model)


def _library(mod, options, model):
    """The library of a module that was made from `model`. options: an Options for each target."""
    attrs, source_hash = mod["main"].attrs, _source_hash(model)
    if len(options) == 1:
        compiled, library = compile_module(mod, options[0], source_hash), _class_of(options[0].target)
    else:
        compiled, library = compile_for_each(mod, options, source_hash), DispatchedLibrary
    if "input_values" not in attrs:
        of_module = isinstance(model, IRModule) and library is CompiledLibrary
        return ModuleLibrary(compiled, model, options[0]) if of_module else library(compiled)
    return structured(library)(compiled, attrs["input_values"], attrs["output_values"])


def _class_of(target, emulated=False):
    """Which library runs what is compiled for a target. emulated: one under QEMU, where this machine cannot."""
    if emulated and is_emulated(target):
        return EmulatedLibrary
    return {"cuda": CudaLibrary, "opencl": OpenCLLibrary}.get(str(target.kind), CompiledLibrary)


def load(model, dims=None, name=None, bounds=None, aliases=None, shapes=None):
    """The IRModule of `model` (see compile); an IRModule is returned as it is."""
    if isinstance(model, IRModule):
        if dims or bounds or aliases or shapes:
            raise ValueError("dims, bounds, aliases and shapes are of what ONNX models name; an IRModule is compiled "
                             "as it stands")
        return _with_main(model)
    mod = from_onnx(model, dims=dims, name=name, bounds=bounds, shapes=shapes)
    return alias_outputs(mod, aliases) if aliases else mod


def _with_main(mod):
    """The module, whose only graph function is "main" (nn.Module.export_tvm names functions by methods), as a network."""
    graphs = [name for name, f in mod.functions.items() if isinstance(f, Function)]
    if "main" not in mod and len(graphs) == 1:
        mod = mod.with_function(graphs[0], mod[graphs[0]].without_attr("global_symbol"))
        return as_network(mod, graphs[0])
    return as_network(mod, "main") if "main" in graphs else mod


def _source_hash(model):
    """SHA-256 of the model's file or protobuf; None for an IRModule, whose own hash is taken."""
    if isinstance(model, IRModule):
        return None
    if not isinstance(model, (str, Path)):
        data = model if isinstance(model, bytes) else model.SerializeToString(deterministic=True)
        return hashlib.sha256(data).hexdigest()
    found = hashlib.sha256()
    with open(model, "rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


def verify(model, feeds=None, tolerance=1e-4, dims=None, bounds=None, aliases=None, shapes=None, board=None, **options):
    """Compare every intermediate tensor that survives fusion with a reference evaluation of the imported graph.

    feeds: {input name: array}; what is missing is drawn. Networks for another machine run under QEMU, or on a board
    that runs the network of verified_folder: board is "tcp:HOST:PORT", "exec:COMMAND" or a serial port. Returns a
    Report: rows, ok, table().
    """
    assembled, reference = _exposed(model, dims, bounds, aliases, shapes, options)
    library = BoardLibrary(assembled, board) if board else _class_of(assembled.target, emulated=True)(assembled)
    with library:
        return compare_outputs(reference, library, feeds, tolerance)


def verified_folder(model, folder, dims=None, bounds=None, aliases=None, shapes=None, **options):
    """Write the folder of the network that verify runs, whose outputs are all tensors that survive fusion: a board
    that is to be verified runs it. Returns its Path."""
    _exposed(model, dims, bounds, aliases, shapes, options)[0].write(folder)
    return Path(folder)


def _exposed(model, dims, bounds, aliases, shapes, options):
    """(the CompiledModel of a network with its tensors as outputs, the module that evaluates them)."""
    checked = Options.check(**options)
    mod = load(model, dims, checked.name, bounds, aliases, shapes)
    lowered, reference = expose_intermediates(lower(mod, checked).lowered, mod)
    return assemble(lowered, reference, checked, _source_hash(model)), reference


def inspect_stage(model, stage="relax", dims=None, kernel=None, bounds=None, aliases=None, shapes=None, **options):
    """The program as text after a stage: "relax", "fused", "tir", "scheduled" or "c"; or "plans" or "traces", what was
    decided for its kernels or how they were scheduled, as JSON, which compile takes; or "accuracy", what is promised,
    and the error bounds of kernels that sum products; or "program", the tree of calls that a run makes, and the lives
    of buffers.

    kernel: only that one, by its name in the C (with or without the network's prefix), its function's name in the
    module, or the name of a model node that it computes. Raises ValueError for a name that none has.
    """
    if stage not in STAGES:
        raise ValueError(f"stage must be one of {', '.join(STAGES)}, not {stage!r}")
    checked = Options.check(**options)
    mod = load(model, dims, checked.name, bounds, aliases, shapes)
    if kernel is not None:
        return _one_kernel(mod, stage, kernel, checked)
    if stage == "relax":
        return mod.script()
    if stage == "program":
        return program_text(compile_module(mod, checked).program)
    if stage == "c":
        files = compile_module(mod, checked).files()
        return "\n".join(f"/* ==== {name} ==== */\n{text}" for name, text in files.items()
                         if name.endswith((".c", ".h", ".cu")) and name not in _RUNTIME
                         and not PROGRAMS.fullmatch(Path(name).stem) and isinstance(text, str))
    stages = lower(mod, checked)
    if stage == "accuracy":
        return _accuracy(stages, stages.kernels, checked)
    return as_text(_RECORDS[stage](stages)) if stage in _RECORDS else getattr(stages, stage).script()


def _one_kernel(mod, stage, wanted, options):
    """The text of what `wanted` names after a stage; see inspect_stage."""
    if stage == "relax":
        raise ValueError("the imported graph has no kernels yet: ask for stage fused, tir, scheduled, traces, accuracy "
                         "or c")
    if stage == "program":
        raise ValueError("a program is of all kernels: leave out the kernel, or ask for stage c")
    stages = lower(mod, options)
    functions = stages.kernels
    found = find_kernels(functions, stages.prefix, [wanted])[wanted]
    if stage == "c":
        printable, of = printed_functions(functions, options.target)
        c_names = kernel_names(printable, stages.prefix)
        kernels = [print_kernel(f, c_names[n], options.target.kind) for n, f in printable.items() if of[n] in found]
        return "\n\n".join(f"{k.comment}\n{k.signature}\n{k.body.rstrip()}" for k in kernels) + "\n"
    if stage == "fused":
        return "\n\n".join(_fused(stages, n) for n in found) + "\n"
    if stage == "accuracy":
        return _accuracy(stages, found, options)
    if stage in _RECORDS:
        return as_text(_RECORDS[stage](stages, found))
    return IRModule({n: getattr(stages, stage)[n] for n in found}).script()


def _accuracy(stages, found, options):
    """The accuracy mode, and a line for each error bound of a kernel."""
    names = kernel_names(stages.kernels, stages.prefix)
    lines = [f"{names[n]}: {bound}" for n in found for bound in error_bounds(stages.kernels[n])]
    return "\n".join([f"{options.accuracy}: {PROMISES[options.accuracy]}; u is 2^-24", *lines]) + "\n"


def recorded_schedules(model, dims=None, bounds=None, aliases=None, shapes=None, **options):
    """{kernel: Trace}: how compile, with these options, schedules each kernel of a network, by its name in the C
    without the prefix. A Trace prints as Python. It may be changed, or be that of a Schedule of one's own of the kernel
    (inspect_stage, "tir"), and goes to compile as schedules={kernel: trace}; at shapes and targets other than its own
    it may not be legal, which raises ValueError.
    """
    checked = Options.check(**options)
    return _traces(lower(load(model, dims, checked.name, bounds, aliases, shapes), checked))


def recorded_plans(model, dims=None, bounds=None, aliases=None, shapes=None, **options):
    """{kernel: Record}: what compile, with these options, decides for each kernel that a rule schedules, by its name in
    the C without the prefix. A Record's `schedule` is the Plan; it goes to compile, whole or in part, as
    schedules={kernel: plan}, or with the hash of its kernel as schedules={kernel: record}. A plan that does not fit,
    and a record of another kernel, raise ValueError.
    """
    checked = Options.check(**options)
    return _plans(lower(load(model, dims, checked.name, bounds, aliases, shapes), checked))


def _traces(stages, functions=None):
    """{kernel: Trace}, of all functions or those given."""
    return _named(stages, {n: stages.traces[n].simplified() for n in functions or stages.traces})


def _plans(stages, functions=None):
    """{kernel: Record} of the plans of all functions or those given."""
    plans = {n: stages.scheduled[n].attrs.get(ATTRIBUTE) for n in functions or stages.traces}
    return _named(stages, {n: Record(plan, kernel_hash(stages.tir[n])) for n, plan in plans.items() if plan})


def _named(stages, found):
    names = kernel_names(stages.kernels, stages.prefix)
    return {names[n].removeprefix(f"{stages.prefix}_"): value for n, value in found.items()}


_RECORDS = {"plans": _plans, "traces": _traces}


def _fused(stages, name):
    """The first group of operators that became the PrimFunc `name`, or the only operator in it, as script."""
    n = next(n for n, b in enumerate(stages.tir["main"].bindings)
             if getattr(b.value, "op", None) == "call_tir" and b.value.attrs["gv"].name == name)
    value = stages.fused["main"].bindings[n].value
    return stages.fused[value.attrs["gv"].name].script() if value.op == "call" else str(value)


_RUNTIME = ("ingot.h", "ingot.c", "simd.h", "simd_integer.h", "simd_half.h", "ingot_half.h", "ingot_math.h")


@dataclass(frozen=True)
class MemoryRow:
    """A buffer: its bytes, the first and the last moment of its life (call numbers, where no branches are), and its
    offset in its memory."""

    name: str
    bytes: int
    first: int
    last: int
    offset: int
    memory: str = HOST


@dataclass(frozen=True)
class MemoryReport:
    """rows: one per planned buffer; total: bytes of the arena for them; lower_bound: the largest sum of live buffers;
    scratch: bytes of the arena that each of `threads` threads has for itself; stack: bytes of its stack at most."""

    rows: tuple
    total: int
    lower_bound: int
    scratch: int
    threads: int
    stack: int


def memory_report(model, dims=None, bounds=None, aliases=None, shapes=None, **options):
    """Where each intermediate tensor lives: a MemoryReport, with symbolic dimensions taken as 1.

    model: see compile; or a CompiledLibrary, whose options then hold.
    """
    if isinstance(model, CompiledLibrary):
        compiled = model.model
    else:
        checked = Options.check(**options)
        compiled = compile_module(load(model, dims, checked.name, bounds, aliases, shapes), checked)
    program = compiled.program
    plan, ones = program.plan, {d.name: 1 for d in program.dims}

    def value(e):
        return evaluate_dim(e, ones)

    rows = tuple(MemoryRow(b.name, value(b.bytes), b.first, b.last, value(plan.offset(n)), b.memory)
                 for n, b in enumerate(plan.buffers))
    bound = sum(r.lower_bound * value(r.unit) for r in plan.regions if r.memory == HOST)
    return MemoryReport(rows, value(plan.total), bound, program.scratch, compiled.arena_threads, compiled.stack)
