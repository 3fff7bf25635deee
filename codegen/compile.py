"""From a graph module to C text: the whole pipeline, one stage after the other."""
from __future__ import annotations

import hashlib
import math
import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps

import numpy as np

from ..ir.boundary import InternalError, internal_errors
from ..ir.expr import Call, IntImm, free_vars
from ..ir.module import IRModule
from ..ir.node import collect, save_json
from ..ir.relax.accuracy import FLOAT32, STRICT, check_accuracy
from ..ir.relax.control import all_bindings, graph_functions, is_control
from ..ir.relax.evaluate import EvaluationError, evaluate
from ..ir.relax.expr import RelaxCall, TensorStructInfo
from ..ir.relax.memory import VIEWS
from ..ir.schedule.rules.threads import parallel_loops
from ..ir.schedule.tensor_intrin import TensorIntrin
from ..ir.tir.bounds import check_bounds
from ..ir.tir.flops import estimate_work
from ..ir.tir.function import PrimFunc
from ..ir.tir.halves import HALF, in_halves
from ..ir.transform.bodies import with_bodies
from ..ir.transform.choose_convolution import check_algorithms
from ..ir.transform.context import PassContext, Sequential
from ..ir.transform.gpu.launch import device_kernels
from ..ir.transform.open_kernels import open_kernels
from ..ir.transform.packed_calls import PACKED
from ..ir.transform.pass_table import RELAX
from ..ir.transform.in_operators import in_operators, require_known
from ..ir.transform.pipeline import Network, graph_passes, lower_module, pipeline_for
from ..ir.transform.stream_rows import Streaming
from ..ir.transform.walk import turns
from . import cuda, cuda_package, opencl, opencl_package  # noqa: F401 - printers and folders of kinds of targets
from .c_names import BESIDE, MOST_NETWORK, network_name
from .dispatch import DispatchedModel, behind_instance, prefix_of
from .dim_checks import SIZES, dim_checks, example_sizes, run_checks
from .external import externals_of, require_generated
from .kernel_cache import Entry, KernelCache, without_body
from .kernels import kernel_names, print_kernel
from .memories import check_memories
from .overwriting import ask
from .package import WEIGHTS, CompiledModel, IndexCheck, evaluate_dim
from .process import for_compiling
from .program import build_program
from .recorded import check_schedules, records_of
from .regions import form_regions
from .scheduling import Scheduling, facts_of, loops_of, scheduled, threads_worth
from .stack import bytes_for_arrays, run_stack
from .target import BYTE_ORDERS, Target, with_code
from .within_limits import within_limits

VERSION = "0.1.0"
THREADS = ("openmp", "none")
DTYPES = ("float32", "float16", "bfloat16")  # that a float32 model may be computed in
ARITHMETICS = (None, "fp16")  # what products, and what follows them, are computed by
REQUANTIZE = ("float", "fixed")  # how sums of integers are scaled to bytes
STAGES = ("relax", "fused", "tir", "scheduled", "plans", "traces", "accuracy", "program", "c")
MOST_INTERPRETED = 10_000_000  # statements that a self-test's reference may run in Python
MOST_REFERENCE_BYTES = 4 << 30  # of the tensors of one operator, that a self-test's reference may hold
MOST_REFERENCE_FLOPS = 10 ** 12  # of a self-test's reference: some minutes


@dataclass(frozen=True)
class Options:
    """The options of a compilation; `check` raises ValueError and names the valid choices."""

    target: Target
    opt_level: int = 2
    threads: str = "openmp"
    weights: str = "incbin"
    name: str | None = None
    accuracy: str = FLOAT32
    algorithms: tuple = ()  # pairs of a convolution's node and its algorithm, see ir/transform/choose_convolution.py
    schedules: tuple = ()  # pairs of a kernel and its Record, see recorded.py
    stack_limit: int | None = None  # bytes of stack that a run may take of each thread; None: the target's
    dtype: str = "float32"
    requantize: str = "float"
    ram_limit: int | None = None  # bytes, see limits.py
    flash_limit: int | None = None
    without: tuple = ()  # what a network is compiled without to keep limits, see graph_passes
    streaming: Streaming | None = None  # what of it is computed in bands of rows, to keep limits
    weight_groups: int = 1  # objects that weights are divided among, so that a linker script can place each
    memories: tuple = ()  # (name, bytes) of those that the arena is spread over, see memories.py
    arithmetic: str | None = None  # "fp16": float16 is computed in float16, sums among it

    @staticmethod
    def check(target="host", opt_level=2, threads=None, weights=None, name=None, exact=False, algorithms=None,
              schedules=None, stack_limit=None, accuracy=None, byte_order=None, dtype="float32",
              requantize="float", ram_limit=None, flash_limit=None, memory=None,
              weight_groups=1, arithmetic=None):
        target = with_code(Target.get(target))
        threads = threads or ("none" if target.freestanding else "openmp")
        weights = weights or ("array" if target.freestanding else "incbin")
        for what, value, known in (("threads", threads, THREADS), ("weights", weights, WEIGHTS),
                                   ("opt_level", opt_level, (0, 1, 2)), ("dtype", dtype, DTYPES),
                                   ("requantize", requantize, REQUANTIZE), ("arithmetic", arithmetic, ARITHMETICS),
                                   ("byte_order", byte_order, (None, *BYTE_ORDERS))):
            if value not in known:
                raise ValueError(f"{what} must be one of {', '.join(map(str, known))}, not {value!r}")
        for what, value in (("stack_limit", stack_limit), ("ram_limit", ram_limit), ("flash_limit", flash_limit)):
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{what} must be a number of bytes, at least 1, not {value!r}")
        if target.launch is not None and (ram_limit or flash_limit):
            raise ValueError(f"ram_limit and flash_limit are of programs on CPUs, not of {target}: leave them out")
        if arithmetic == "fp16" and not target.half_vectors:
            raise ValueError(f"{target} does not compute in vectors of float16: leave out arithmetic (--arithmetic), "
                             "or give a target that does, such as aarch64-fp16")
        memories = check_memories(memory)
        if memories and threads != "none":
            raise ValueError('several memories are for programs of one thread: give threads="none" (--threads none)')
        if not isinstance(weight_groups, int) or weight_groups < 1:
            raise ValueError(f"weight_groups must be a number, at least 1, not {weight_groups!r}")
        if weight_groups > 1 and (weights not in ("array", "incbin") or target.kind != "c"):
            raise ValueError(f"weights that lie in {weight_groups} groups are embedded in a program on a CPU: give "
                             'weights="array" or "incbin" (--weights array), or leave out weight_groups')
        if weights == "stream" and (threads != "none" or target.kind != "c"):
            raise ValueError('weights="stream" is for programs of one thread on CPUs: give threads="none" '
                             '(--threads none)')
        algorithms = {} if algorithms is None else algorithms
        accuracy = _accuracy(accuracy, exact)
        check_algorithms(algorithms, accuracy)
        if algorithms and opt_level < 2:
            raise ValueError(f"algorithms are chosen at opt_level 2 only, not {opt_level}")
        if target.freestanding and threads == "openmp":
            raise ValueError(f"no system runs threads on {target}: leave out threads, or give threads=\"none\"")
        if name is not None and (other := network_name(name, kind=target.kind)) != name:
            raise ValueError(f"name {name!r} is no C identifier, or one that is taken; {other!r} would do"
                             + (f" (at most {MOST_NETWORK} letters)" if len(name) > MOST_NETWORK else ""))
        target = replace(target, byte_order=byte_order or target.byte_order)
        return Options(target, opt_level, threads, weights, name, accuracy, tuple(algorithms.items()),
                       tuple(check_schedules(schedules).items()), stack_limit, dtype, requantize,
                       ram_limit, flash_limit, (), None, weight_groups, memories, arithmetic)

    @property
    def overwrites(self):
        """Whether results may lie where inputs of their kernels were: less memory, and pointers of which compilers know
        less."""
        return self.target.freestanding or self.ram_limit is not None and self.threads == "none"

    @cached_property
    def machine(self):
        """The target as passes and rules see it: without threads that share loops where none are asked for."""
        target = self.target.derive(self.target.name, isa=(self.arithmetic,)) if self.arithmetic else self.target
        return target if self.threads == "openmp" else target.alone()


def _accuracy(accuracy, exact):
    """The accuracy that is asked for; exact=True is what "strict" was called."""
    if exact:
        warnings.warn('exact=True is deprecated: write accuracy="strict"', DeprecationWarning, stacklevel=4)
        if accuracy not in (None, STRICT):
            raise ValueError(f"exact=True means accuracy={STRICT!r}, not {accuracy!r}: leave out exact")
        return STRICT
    check_accuracy(FLOAT32 if accuracy is None else accuracy)
    return FLOAT32 if accuracy is None else accuracy


@dataclass
class Stages:
    """The module after each stage, filled as the pipeline goes. prefix: of C names; traces: {function: Trace}; printed:
    {function: Kernel}, keys: {function: key} and waits: {function: parallel loops that were planned} of lower's
    cache."""

    prefix: str
    relax: IRModule = None
    fused: IRModule = None
    tir: IRModule = None
    scheduled: IRModule = None
    lowered: IRModule = None
    traces: dict = field(default_factory=dict)
    printed: dict = field(default_factory=dict)
    keys: dict = field(default_factory=dict)
    waits: dict = field(default_factory=dict)

    @property
    def kernels(self):
        """{name: PrimFunc}, those of `lowered`."""
        return _prim_funcs(self.lowered)


def _prefix(mod, options):
    return options.name or network_name(mod.attrs.get("name", "model"), kind=options.target.kind)


def _prim_funcs(mod):
    return {n: f for n, f in mod.functions.items() if isinstance(f, PrimFunc)}


def optimize(mod, options, until=None):
    """The graph passes of this optimization level; those before the pass `until` alone."""
    if options.dtype != HALF and not any(getattr(b.var.struct_info, "dtype", None) == HALF for b in all_bindings(mod)):
        options = replace(options, arithmetic=None)  # layouts are for what is computed in
    passes = graph_passes(options.opt_level, options.machine, options.accuracy, dict(options.algorithms), options.dtype,
                          options.requantize, options.without, options.streaming)
    if until:
        passes = passes[:[p.name for p in passes].index(until)]
    mod = in_operators(open_kernels(require_generated(mod)))
    return with_bodies(require_known(mod), Sequential(passes, name="Optimize"))


def _bounded(stage):
    """`stage`, a function (module, options, ...), whose internal errors name the model at least."""
    @wraps(stage)
    def run(mod, *args, **kwargs):
        where = internal_errors(lambda: f"the model {mod.attrs.get('name', 'model')!r}")
        with where, for_compiling(), np.errstate(all="ignore"):  # constants may overflow or be NaN, as results may
            return stage(mod, *args, **kwargs)
    return run


@_bounded
def lower(mod, options, cache=None):
    """All stages of a graph module, as a Stages. cache: a KernelCache; of kernels that it holds there are no traces,
    `scheduled` has them as they were before, `lowered` without bodies, and `printed` their C. Raises VerifyError for a
    program of its own that leaves a buffer."""
    for func in _prim_funcs(mod).values():
        check_bounds(func)
    stages = Stages(_prefix(mod, options), mod)
    stages.fused = optimize(mod, options)
    stages.tir = RELAX["StoreConstants"]()(RELAX["LegalizeOps"]()(stages.fused))
    if options.machine.halves:
        halves = {n: in_halves(f) for n, f in _prim_funcs(stages.tir).items()}
        stages.tir = stages.tir.with_functions({**stages.tir.functions, **halves})
    if options.target.launch is not None:
        stages.tir = RELAX["StateAlignments"]()(stages.tir)
    if options.overwrites:
        stages.tir = stages.tir.with_functions({**stages.tir.functions, **ask(_prim_funcs(stages.tir))})
    functions, main = _prim_funcs(stages.tir), stages.tir["main"]
    work = {n: estimate_work(f) for n, f in functions.items()}
    kept = bytes_for_arrays(options.target, options.threads, _pointers(main), options.stack_limit)
    recorded = records_of(functions, stages.prefix, dict(options.schedules))
    kept_apart = options.target.launch is not None or TensorIntrin.replaced() or not PassContext.current().is_default
    cache = None if kept_apart else cache
    run = Scheduling(functions, options, recorded, kept, cache or KernelCache(None), stages.prefix)
    options = options if run.worth(stages.tir, work) else replace(options, threads="none")
    kernels, entries = run.schedule(options)
    stages.traces = {n: sch.trace for n, sch in kernels.items()}
    stages.keys, stages.waits = run.keys, run.waits
    scheduled_ = {n: scheduled(functions[n], sch, work[n]) for n, sch in kernels.items()}
    stages.scheduled = stages.tir.with_functions({**stages.tir.functions, **scheduled_})
    passes = pipeline_for(options.machine, Network(kept))
    done = {n: run.lowered[sch.func].with_attr(facts_of(sch, functions[n], work[n])) for n, sch in kernels.items()
            if sch.func in run.lowered}
    rest = IRModule({n: f for n, f in scheduled_.items() if n not in done})
    done.update(lower_module(rest, passes).functions)  # alone: flat kernels do not fit the calls in "main"
    made = {n: f.with_attr("parallel_loops", parallel_loops(f.body)) for n, f in done.items()}
    made.update({n: entry.func for n, entry in entries.items()})
    stages.lowered = stages.tir.with_functions({**graph_functions(stages.tir), **{n: made[n] for n in functions}})
    stages.printed = {n: entry.kernel for n, entry in entries.items()}
    return stages


def _pointers(main):
    """How many tensors a run holds pointers to: where all is of constant size, intermediate ones are offsets."""
    dims = main.attrs.get("dims") or free_vars([p.struct_info.shape for p in main.params])
    return len(main.params) + len(main.outputs) + len(dims) + (2 * len(main.bindings) if dims else 0)


def compile_module(mod, options, source_hash=None):
    """The CompiledModel of a graph module. Raises the ValueError of the stage that cannot go on, LimitError where
    limits of RAM or flash cannot be kept, InternalError for a failure that is none of the model's."""
    cache = KernelCache.default()

    def compile_(options):
        stages = lower(mod, options, cache)
        model = assemble(stages.lowered, mod, options, source_hash, stages.printed)
        _store(cache, stages, model)
        return stages, model

    _, model = within_limits(options, compile_, lambda options: optimize(mod, options, until="FuseOps"))
    cache.trim()
    return model


def _store(cache, stages, model):
    """Keep the kernels of a network that the cache does not have: other options may need them at once."""
    for n, key in stages.keys.items():
        if n not in stages.printed:
            entry = Entry(without_body(stages.lowered[n]), model.kernels[model.kernel_of[n]], stages.waits.get(n))
            cache.store(key, entry)


def compile_for_each(mod, options, source_hash=None):
    """The DispatchedModel of a graph module for several targets, of which each has an Options, the best first."""
    name = _prefix(mod, options[0])
    if externals_of(mod):
        raise ValueError("what external generators wrote is in a folder once: compile for one target")
    each = [replace(o, name=prefix_of(name, o.target), memories=behind_instance(o.memories)) for o in options]
    return DispatchedModel(name, tuple(compile_module(mod, o, source_hash) for o in each))


@_bounded
def assemble(lowered, mod, options, source_hash=None, printed=None):
    """The CompiledModel of a lowered module made from `mod`, whose evaluation gives the self-test's outputs.

    printed: {function: Kernel} of those whose C is there already."""
    name = _prefix(mod, options)
    functions = _prim_funcs(lowered)
    devices = _devices(functions, options.target)
    printable, _ = printed_functions(functions, options.target, devices)
    kernel_of = kernel_names(printable, name)
    kernels = {}
    for n, f in printable.items():
        with internal_errors(lambda: f"the C of {f.title}"):
            kernels[kernel_of[n]] = (printed or {}).get(n) or print_kernel(f, kernel_of[n], options.target.kind)
    work = {n: f.attrs.get("work", (0, ())) for n, f in functions.items()}
    threads = threads_worth(options, lowered, work, {n: loops_of(f) for n, f in functions.items()})
    budget = options.machine.l2_bytes if threads > 1 else 0
    taken = [*kernel_of.values(), *BESIDE.get(options.target.kind, ())]
    program = build_program(lowered, name, budget, taken, run_checks(mod), devices, _memories(options, lowered),
                            options.weights == "stream")
    indexes = index_extents(mod)
    samples = dict(mod["main"].attrs.get("samples", ()))
    inputs = tuple(replace(t, indexes=indexes.get(n, ()), sample=samples.get(n, ()))
                   for n, t in enumerate(program.inputs))
    run = form_regions(program.run, {n: kernels[name].function for n, name in kernel_of.items()})
    program = replace(program, inputs=inputs, run=run)
    pointers = _pointers(lowered["main"])
    stack = 0 if devices else run_stack(
        options.target, options.threads, pointers, kernels.values(), options.stack_limit)
    dims = tuple(d.name for d in program.dims)
    flops = count_flops(mod)
    checks = dim_checks(mod)
    sizes = example_sizes(mod, dims, checks)
    most_bytes = _most_bytes(mod, sizes)
    inputs = sample_arrays(program.inputs, sizes)
    if most_bytes > MOST_REFERENCE_BYTES or flops > MOST_REFERENCE_FLOPS:
        outputs, reason = (), (
            f"evaluation would take {most_bytes / 2**30:.1f} GiB and {flops:.1e} operations, more than "
            f"{MOST_REFERENCE_BYTES >> 30} GiB or {MOST_REFERENCE_FLOPS:.0e}")
    else:
        outputs = _expected(mod, inputs, program.outputs, sizes)
        reason = "" if outputs else "the network calls C functions, or programs that would be interpreted for minutes"
    return CompiledModel(
        program=program, kernels=kernels, kernel_of=kernel_of, target=options.target, threads=options.threads,
        weights=options.weights, title=mod.attrs.get("name", name), model_hash=source_hash or _hash(mod),
        version=VERSION, flops=flops, no_reference=reason,
        test_inputs=inputs, test_outputs=outputs, test_dims=tuple(sizes.values()),
        index_checks=index_checks(mod), most_threads=threads, stack=stack,
        accuracy=options.accuracy, dim_checks=checks, dtype=options.dtype, memories=options.memories,
        weight_groups=options.weight_groups, externals=externals_of(mod),
        options=tuple((o.replace("_", "-"), getattr(options, o)) for o in ("opt_level", "requantize", "stack_limit")))


def _memories(options, lowered):
    """The memories that the arena is spread over. Raises ValueError where sizes are symbolic."""
    if options.memories and (options.target.launch is not None or lowered.attrs.get("dims") or free_vars(
            [p.struct_info.shape for p in lowered["main"].params])):
        raise ValueError("several memories are for programs on CPUs with tensors of constant size: give each symbolic "
                         "dimension a value (--dim NAME=N)")
    return options.memories


def _devices(functions, target):
    """{function: [(name of a kernel, DeviceKernel)]} of lowered functions for a device; empty for a CPU. A function
    that is one kernel gives it its name."""
    found = {}
    for n, f in functions.items() if target.launch is not None else ():
        made = device_kernels(f, target.launch)
        names = [n] if len(made) == 1 else [f"{n}.{k}" for k in range(len(made))]
        found[n] = list(zip(names, made))
    return found


def printed_functions(functions, target, devices=None):
    """({name: function that is printed as a kernel}, {its name: that of the lowered function}): on a device a function
    may be several kernels. devices: as _devices finds them."""
    devices = _devices(functions, target) if devices is None else devices
    if not devices:
        return functions, {n: n for n in functions}
    return ({key: k.func for launched in devices.values() for key, k in launched},
            {key: n for n, launched in devices.items() for key, _ in launched})


def _most_bytes(mod, sizes):
    """The most bytes that one operator's tensors have under {symbolic dimension: size}; 0 where these do not say it."""
    groups = [[x.struct_info for x in (b.var, *getattr(b.value, "args", ()))] for b in mod["main"].bindings]
    groups.append([p.struct_info for p in mod["main"].params])
    try:
        return max(sum(math.prod(_dim_at(d, sizes) for d in i.shape) * i.dtype.bytes for i in group
                       if isinstance(i, TensorStructInfo) and i.shape is not None) for group in groups)
    except ValueError:  # a dimension that only a run knows
        return 0


def _dim_at(dim, known):
    return dim.value if isinstance(dim, IntImm) else evaluate_dim(dim, known)


def _expected(mod, inputs, descs, sizes):
    """The outputs of a reference evaluation; none of a network that calls C functions, which only C can run, or loop
    programs that would be interpreted for minutes."""
    if sum(turns(mod[b.value.attrs["gv"]].body, SIZES[0]) for b in all_bindings(mod)
           if getattr(b.value, "op", None) == "call_tir") > MOST_INTERPRETED:
        return ()
    try:
        expected = evaluate(mod, inputs, known={d: sizes[d.name] for d in mod.attrs.get("dims", ()) if d.name in sizes})
    except (EvaluationError, InternalError):
        if any(is_control(b.value) for b in all_bindings(mod)):
            return ()  # inputs that are made up lead to sizes that the network refuses, or numpy has no result for
        if _calls_others(mod):
            return ()
        raise
    expected = expected if isinstance(expected, tuple) else (expected,)
    return tuple(np.asarray(o, dtype=t.dtype.numpy) for o, t in zip(expected, descs))


def _calls_others(mod):
    """Whether a network calls functions of C, or packed functions, which no one here knows."""
    return any(getattr(b.value, "op", "") in PACKED for b in all_bindings(mod)) or any(
        call.op in ("tir.call_extern", "tir.tvm_call_packed") for f in mod.functions.values() if isinstance(f, PrimFunc)
        for call in collect(f.body, Call))


def _hash(mod):
    return hashlib.sha256(save_json(mod).encode()).hexdigest()


def sample_arrays(descs, dims, seed=0):
    """Arrays that fit the inputs: the numbers of their samples; else floats uniform in [0, 1), indices over the axes
    that they are of, other integers 0 or 1. Equal seeds give equal arrays."""
    rng = np.random.default_rng(seed)
    arrays = []
    for t in descs:
        shape = tuple(d if isinstance(d, int) else evaluate_dim(e, dims) for d, e in zip(t.shape, t.dims))
        if t.sample and len(t.sample) in (1, math.prod(shape)):
            arrays.append(np.broadcast_to(np.array(t.sample).reshape(shape if len(t.sample) > 1 else ()), shape).astype(
                t.dtype.numpy))
            continue
        numbers = rng.random(shape, np.float32) if t.dtype.is_float else rng.integers(0, _end(t, dims), shape)
        arrays.append(np.asarray(numbers).astype(t.dtype.numpy))
    return tuple(arrays)


def _end(desc, dims):
    """The exclusive upper bound of the integers drawn for an input."""
    least = min((_dim_at(e, dims) for e in desc.indexes if all(v.name in dims for v in free_vars(e))), default=2)
    return least if desc.dtype.is_bool else min(max(least, 1), desc.dtype.max_value())


# ---------------------------------------------------------------- facts about a module

_KEEPING = ("astype", "permute_dims", "strided_slice", "broadcast_to", "flip", "tile", "repeat")  # values as they are
_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv2d_transpose", "qnn.conv2d", "qnn.conv3d")
_RECURRENT = ("nn.lstm", "nn.gru", "nn.rnn")
_PRODUCTS = ("matmul", "matmul_quantized", "qnn.matmul")
_COUNTED = (*_CONVOLUTIONS, *_RECURRENT, *_PRODUCTS)


def count_flops(mod):
    """Operations of one run, an FMA counted as 2; convolutions, products and those in recurrent layers only.
    0 when dims are symbolic."""
    total = 0
    for b in mod["main"].bindings:
        call = b.value
        if not isinstance(call, RelaxCall) or call.op not in _COUNTED:
            continue
        if call.op in _RECURRENT:
            shapes = [x.struct_info.static_shape for x in call.args[:3]]
            if None in shapes:
                return 0
            (time, batch, _), w, r = shapes  # weights of all directions and gates, used once a step
            total += 2 * time * batch * (math.prod(w) + math.prod(r))
            continue
        out, a, w = call.struct_info.static_shape, call.args[0].struct_info, call.args[1].struct_info
        if out is None or a.static_shape is None or w.static_shape is None:
            return 0
        size = int(np.prod(out))
        if call.op in _PRODUCTS:
            total += 2 * size * a.static_shape[-1]
        elif call.op == "nn.conv2d_transpose":
            total += 2 * int(np.prod(a.static_shape)) * int(np.prod(w.static_shape[1:]))
        else:
            total += 2 * size * int(np.prod(w.static_shape[1:]))
    return total


def _indexed(mod, through):
    """(number of an input, extent of an axis) for all axes that an input's values are indices of, as they are or after
    operators `through` that keep them."""
    numbers = {id(p): n for n, p in enumerate(mod["main"].params)}
    for b in mod["main"].bindings:
        call = b.value
        if not isinstance(call, RelaxCall):
            continue
        if call.op in through and id(call.args[0]) in numbers:
            numbers[id(b.var)] = numbers[id(call.args[0])]
        held = call.attrs.get("mode") in ("clip", "wrap", "nan")  # where the call itself keeps them inside
        if call.op in ("take", "gather_elements") and id(call.args[1]) in numbers and not held:
            yield numbers[id(call.args[1])], call.args[0].struct_info.shape[call.attrs["axis"] or 0]


def index_checks(mod):
    """Integer inputs that index a constant-size axis, as they are or reshaped: checked at run time."""
    checks = {}
    for number, extent in _indexed(mod, VIEWS):
        if isinstance(extent, IntImm):
            high = min(extent.value, checks[number].high) if number in checks else extent.value
            checks[number] = IndexCheck(number, -high, high)
    return tuple(checks.values())


def index_extents(mod):
    """{number of an input: the extents of the axes that its values are indices of}."""
    extents = {}
    for number, extent in _indexed(mod, (*VIEWS, *_KEEPING)):
        extents[number] = (*extents.get(number, ()), extent)
    return extents
