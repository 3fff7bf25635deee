"""The program: the trees of calls that init and run are, and where every tensor lives. What is printed as C."""
from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np

from ..ir.dtype import DataType
from ..ir.expr import IntImm, Max, Var, const, free_vars, is_const_int, logical_and, substitute
from ..ir.pieces import pieces
from ..ir.relax.control import dims_set_by, fields_of, loop_parts
from ..ir.relax.expr import Constant, PrimValue, RelaxCall, TupleStructInfo
from ..ir.relax.memory import Memory
from ..ir.script.relax_printer import RelaxPrinter
from ..ir.tir.stored import ATTRIBUTE, Stored
from ..ir.transform.outputs import own_memory
from . import memory_plan
from .blob import groups_of
from .c_names import most_letters, new_name, taken_names
from .c_types import identifier
from .lives import place_buffers
from .memories import planned
from .overwriting import overwritten, root
from .streaming import with_reads
from .team import has_parallel_loop
from .tree import Call, Check, Copy, For, If, Launch, Let, Operand, Read, Seq, While, assigned, calls_of

WEIGHT_ALIGN = 64
HEADER_BYTES = 64  # of the instance, at the beginning of the arena


def header_bytes(pointers=0):
    """Bytes of an instance that holds so many pointers more than all do."""
    return HEADER_BYTES + _padded(8 * pointers)


IMAGE = 3  # the last dimensions of a tensor in blocked layout that are an image: rows, columns, lanes


@dataclass(frozen=True)
class TensorDesc:
    """An input or output. name: a C identifier; source_name: the model's; shape: ints, and expressions of symbolic
    dimensions as text (a dimension's name, mostly); dims: the same as expressions; indexes: the extents of the axes
    that the values of an input are indices of, as expressions; sample: numbers that it may hold, where a run checks
    them; updated: whether a run overwrites parts of an input, where an output of the model lies."""

    name: str
    source_name: str
    dtype: str
    shape: tuple
    dims: tuple
    indexes: tuple = ()
    sample: tuple = ()
    updated: bool = False


@dataclass(frozen=True)
class Weight:
    name: str
    data: np.ndarray
    offset: int


@dataclass(frozen=True)
class Program:
    """name; inputs, outputs: TensorDescs; dims: symbolic dimensions that the caller passes; init, run: the trees of a
    new instance and of each run; weights; plan: a MemoryPlan whose buffer i is what Operand("arena", i) means, of
    element type buffer_dtypes[i]; scratch: bytes of memory that each thread has for itself, which all kernels use in
    turns. Dimensions of outputs that a Let of the run sets are `found`: the run reports them."""

    name: str
    inputs: tuple
    outputs: tuple
    dims: tuple
    init: Seq
    run: Seq
    weights: tuple
    plan: memory_plan.MemoryPlan
    buffer_dtypes: tuple
    scratch: int = 0
    # Of the file of weights, where it has those of other networks, too: bytes, the network that has it, and where its
    # groups begin.
    blob_bytes: int = 0
    blob_owner: str = ""
    blob_starts: tuple = ()

    @property
    def once(self):
        """The calls of a new instance."""
        return calls_of(self.init)

    @property
    def calls(self):
        """The calls of a run that profile hooks tell apart, by their position here."""
        return tuple(c for c in calls_of(self.run) if c.hook)

    @property
    def found(self):
        """The variables of the run that the shapes of outputs depend on, in the order of these."""
        lets = {v for v, nodes in assigned(self.run).items() if isinstance(nodes[0], Let)}
        return tuple(v for v in free_vars([t.dims for t in self.outputs]) if v in lets)

    @property
    def weights_bytes(self):
        own = self.weights[-1].offset + _padded(self.weights[-1].data.nbytes) if self.weights else 0
        return self.blob_bytes or own

    @property
    def weights_symbol(self):
        """Where the weights are, in C, if they are in one group."""
        return f"{self.blob_owner or self.name}_weights"

    def group_starts(self, count):
        """Where `count` groups of weights begin, fewer where there are fewer weights, but one at least."""
        return self.blob_starts or _starts(self.weights, count)


def tensor_name(source, fallback, network, taken):
    """The C name of an input or output of a network that the model calls `source`; it is added to `taken`."""
    return new_name(identifier(source, fallback, most_letters(network)), taken, most_letters(network))


def named(program, name):
    """The program of a network called `name`, whose inputs and outputs are called as they would be there."""
    taken = {*taken_names(name), *(d.name.lower() for d in program.dims)}
    inputs, outputs = (
        tuple(replace(t, name=tensor_name(t.source_name, fallback, name, taken)) for t in tensors)
        for tensors, fallback in ((program.inputs, "input"), (program.outputs, "output")))
    return replace(program, name=name, inputs=inputs, outputs=outputs)


def _starts(weights, count):
    groups = groups_of([w.data.nbytes for w in weights], count)
    return tuple(weights[group[0]].offset for group in groups if group) or (0,)


def sharing_weights(programs, owner, groups):
    """(the programs with their weights in one blob, in which equal ones lie once; the weights of that blob). owner: the
    network that has it; groups: how many its weights are divided among."""
    places, blob, end, moved = {}, [], 0, []
    for program in programs:
        weights = []
        for w in program.weights:
            key = w.data.dtype.str, _digest(w.data)
            if key not in places:
                places[key] = end
                blob.append(replace(w, offset=end))
                end += _padded(w.data.nbytes)
            weights.append(replace(w, offset=places[key]))
        moved.append(tuple(weights))
    common = {"blob_bytes": end, "blob_owner": owner, "blob_starts": _starts(blob, groups)}
    return [replace(p, weights=w, **common) for p, w in zip(programs, moved)], tuple(blob)


def _digest(array):
    found = hashlib.sha256()
    for part in pieces(array):
        found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8))
    return found.digest()


def _padded(size):
    return -(-size // WEIGHT_ALIGN) * WEIGHT_ALIGN


def build_program(mod, name, budget=0, kernels=(), checks=None, devices=None, memories=(), stream=False):
    """The Program of a lowered module ("main" of call_tir, views and tuple items; outputs materialized). budget: that
    of its memory plan; kernels: their names in C, which tensors do not have; checks: {function of the module: DimChecks
    that its runs make}; devices: {function of the module: [(name, DeviceKernel)] that it is on a GPU}; memories:
    ((name, bytes), ...) that the arena is spread over; stream: whether runs read weights into the arena."""
    return _Builder(mod, name, kernels, checks or {}, devices or {}).build(budget, memories, stream)


class _Builder:
    def __init__(self, mod, name, kernels=(), checks=None, devices=None):
        self.devices = devices or {}
        self.checks, self.known = {n: list(some) for n, some in (checks or {}).items()}, set()
        self.mod, self.main, self.name, self.kernels = mod, mod["main"], name, kernels
        self.dims = tuple(mod.attrs.get("dims") or free_vars([p.struct_info.shape for p in self.main.params]))
        self._enter("main")
        self.known.update(map(id, self.dims))
        self.where = {}       # owner of memory -> the Operand that it is
        self.weights, self.weight_index, self.weight_end = [], {}, 0
        self.buffers, self.dtypes = [], []  # of the arena
        self.scratch = 0
        self.overwrites = {}  # owner -> the earlier owner in whose place it lies

    def _enter(self, name):
        """Go on with the bindings of a function, "main" or a body."""
        self.function, self.func = name, (func := self.mod[name])
        self.memory = Memory(func)
        self.around = {id(b.value.args[0]) for b in func.bindings if getattr(b.value, "op", "") == "memory.inlay"}

    def build(self, budget, memories=(), stream=False):
        taken = {*taken_names(self.name, self.kernels), *(d.name.lower() for d in self.dims)}
        inputs = self._describe(self.main.params, self.main.attrs.get("input_names"), "input", taken)
        outputs = self._describe(self.main.outputs, self.main.attrs.get("output_names"), "output", taken)
        updated = {self.memory.place(b.var).owner for b in self.main.bindings
                   if getattr(b.value, "op", "") == "memory.update"}
        inputs = tuple(replace(t, updated=(id(p), 0) in updated) for t, p in zip(inputs, self.main.params))
        for n, p in enumerate(self.main.params):
            self.where[id(p), 0] = Operand("input", n, inputs[n].name)
        self._place_outputs(outputs)
        self.overwrites = {} if self.dims else overwritten(self.mod, self.memory, self._in_order(), self.where)
        calls = self._steps()
        if stream:
            calls = with_reads(calls, self.weights, lambda name, data: self._allocate(
                name, DataType(data.dtype.name), tuple(const(d, "int64") for d in data.shape)))
        run = Seq(tuple(calls))
        plan = place_buffers(self.buffers, run, budget=budget, plan=partial(
            planned, run=run, memories=memories,
            beside=header_bytes(len(memories) - 1 + 2 * stream) + self.scratch) if memories else None)
        if not all(isinstance(c, Call) for c in calls):
            return Program(self.name, inputs, outputs, self.dims, Seq(), Seq(tuple(calls)), tuple(self.weights), plan,
                           tuple(self.dtypes), self.scratch)
        alone = [c for c in calls if c.border and not self._is_shared(c.kernel)]
        lasting = () if self.dims else lasting_borders(alone, plan)
        once, again = [], []
        for call in without_repetitions(calls, plan):
            if _border(call, plan) in lasting:
                once.append(replace(call, hook=False))
            else:
                again.append(call)
        return Program(self.name, inputs, outputs, self.dims, Seq(tuple(once)), Seq(tuple(again)), tuple(self.weights),
                       plan, tuple(self.dtypes), self.scratch)

    def _is_shared(self, kernel):
        """Whether threads share a kernel's loops."""
        func = self.mod[kernel]
        return bool(func.attrs.get("parallel_loops")) or has_parallel_loop(func.body)

    def _steps(self):
        """The nodes of a function, whose Memory is self.memory."""
        steps = self._due()
        for b in self._in_order():
            steps += _STEPS[b.value.op](self, b)
            self.known.update(map(id, dims_set_by(b.value)))
            steps += self._due()
        return steps

    def _due(self):
        """The checks of this function whose variables are set, each once."""
        waiting = self.checks.get(self.function, ())
        due = [c for c in waiting if all(id(v) in self.known for v in free_vars(c.cond))]
        if due:
            self.checks[self.function] = [c for c in waiting if c not in due]
        return [Check(c.cond) for c in due]

    def _in_order(self):
        """The calls' bindings, a border before what writes inside it: threads need not wait for one another between."""
        found = []
        for b in self.func.bindings:
            if not isinstance(b.value, RelaxCall) or b.value.op not in _STEPS:
                continue
            at = len(found)
            if id(b.var) in self.around:
                own, = (place.owner for place in self.memory.results(b))
                at = next((n for n, c in enumerate(found) if own in (p.owner for p in self.memory.results(c))), at)
            found.insert(at, b)
        return found

    def _describe(self, values, source_names, fallback, taken):
        found = []
        for n, v in enumerate(values):
            source = source_names[n] if source_names else getattr(v, "name", f"{fallback}_{n}")
            name = tensor_name(source, fallback, self.name, taken)
            info = v.struct_info
            found.append(TensorDesc(name, source, info.dtype, tuple(map(_dim, info.shape)), info.shape))
        return tuple(found)

    def _place_outputs(self, outputs):
        for n, out in enumerate(self.main.outputs):
            owner = own_memory(self.memory, out)
            if owner is None or owner in self.where:
                raise ValueError(f"output {outputs[n].source_name} has no memory of its own; run materialize_outputs")
            self.where[owner] = Operand("output", n, outputs[n].name)

    def _operand(self, place, stored=""):
        """The operand that a call reads or writes at a Place; stored: the form in which it reads a constant."""
        if stored:
            return self._weight(self.memory.values[place.owner][0], stored)
        owner = root(place.owner, self.overwrites)
        if owner not in self.where:
            value, info = self.memory.values[owner]
            self.where[owner] = self._weight(value) if isinstance(value, Constant) else self._allocate(
                value.name, info.dtype, info.shape)
        return _further(self.where[owner], place.offset)

    def _weight(self, constant, stored=""):
        key = id(constant.data), stored
        if key not in self.weight_index:
            name = identifier(constant.name or "const", "w")
            data = Stored.named(stored).encode(constant.data) if stored else constant.data
            self.weight_index[key] = Operand("weight", len(self.weights), name)
            self.weights.append(Weight(name, data, self.weight_end))
            self.weight_end += _padded(data.nbytes)
        return self.weight_index[key]

    def _call(self, binding):
        call = binding.value
        func = self.mod[call.attrs["gv"]]
        forms = func.attrs.get(ATTRIBUTE) or [""] * len(call.args)
        operands = [self._operand(self.memory.place(a), form) for a, form in zip(call.args, forms)]
        infos = call.struct_info.fields if isinstance(call.struct_info, TupleStructInfo) else (call.struct_info,)
        results = [self._operand(place) for place in self.memory.results(binding)]
        dims = tuple(call.attrs.get("sym_args", ()))
        own_dims = dict(zip((p for p in func.params if p not in func.buffer_map), dims))
        spaces, own = _workspace(func), func.attrs.get("scratch", ())
        work = [self._allocate(b.name, b.dtype, substitute(b.shape, own_dims))
                for b in spaces[:len(spaces) - len(own)]]
        work += [Operand("scratch", place, b.name) for place, b in zip(own, spaces[len(spaces) - len(own):])]
        self.scratch = max(self.scratch, func.attrs.get("scratch_bytes", 0))
        comment = f"{binding.var.name}: {', '.join(_shape_text(i) for i in infos)}"
        if call.attrs["gv"].name in self.devices:
            tensors = [p for p in func.params if p in func.buffer_map]
            given = dict(zip(map(id, tensors), (*operands, *results, *work)))
            read = set(map(id, tensors[:len(operands)]))
            return [_launch(name, kernel, given, read, own_dims, comment)
                    for name, kernel in self.devices[call.attrs["gv"].name]]
        return [Call(call.attrs["gv"].name, (*operands, *results, *work), dims, comment,
                     not call.args and id(binding.var) in self.around, len(operands))]

    # ------------------------------------------------------------ what a run decides

    def _body(self, gv, given, results, finish=lambda outputs: []):
        """The nodes of a body whose parameters are the Operands `given`. results: where its outputs are written, an
        Operand each, None for a buffer of its own; finish: makes the last nodes, of the outputs' Operands."""
        outer = self.function, self.func, self.memory, self.around
        self._enter(gv.name)
        self.where.update({(id(p), 0): operand for p, operand in zip(self.func.params, given)})
        for out, operand in zip(self.func.outputs, results):
            if operand is not None:
                self.where[own_memory(self.memory, out)] = operand
        steps = self._steps()
        steps += finish([self._operand(self.memory.place(out)) for out in self.func.outputs])
        self.function, self.func, self.memory, self.around = outer
        return steps

    def _value(self, value):
        return self._operand(self.memory.place(value))

    def _if(self, binding):
        """The branch that is taken writes what the call gives."""
        call, attrs = binding.value, binding.value.attrs
        cond, *given = call.args
        results = [self._operand(place) for place in self.memory.results(binding)]
        given, steps = [self._value(a) for a in given], []
        if isinstance(cond, PrimValue):
            holds = cond.value
        else:
            holds = Var(f"{binding.var.name}_cond", "bool")
            steps = [Let(holds, Read(self._value(cond)))]
        branches = [Seq((*self._body(attrs[key], given, results),
                         *(Let(var, values[n], var.most) for var, *values in attrs["dims"])))
                    for n, key in enumerate(("then", "other"))]
        return [*steps, If(holds, *branches)]

    def _loop(self, binding):
        """Carried values lie where the call's results do. A body writes the next ones beside them, and rows of stacked
        results where they belong."""
        call, attrs, index = binding.value, binding.value.attrs, binding.value.attrs["index"]
        p, infos = loop_parts(call, call.args), fields_of(call.struct_info)
        self.known.add(id(index))
        results = [self._operand(place) for place in self.memory.results(binding)]
        carried, stacked = results[:len(p.carried)], results[len(p.carried):]
        rows = [_further(o, index * _count(i.shape[1:])) for o, i in zip(stacked, infos[len(carried):])]
        slices = [_further(self._value(x), index * _count(x.struct_info.shape[1:])) for x in p.scanned]
        given = [*carried, *slices, *map(self._value, p.captured)]
        own = [None] * attrs["cond"]
        going = Var(f"{binding.var.name}_going", "bool")

        def finish(outputs):
            """The next carried values, and whether there is a next iteration."""
            news = [Copy(new, old, _bytes(i.dtype, i.shape))
                    for new, old, i in zip(outputs[len(own):], carried, infos)]
            return [*news, *(Let(going, Read(o)) for o in outputs[:len(own)])]

        before = [Copy(self._value(x), o, _bytes(i.dtype, i.shape)) for x, o, i in zip(p.carried, carried, infos)]
        turn = self._body(attrs["body"], given, [*own, *[None] * len(carried), *rows], finish)
        limit = Var(f"{binding.var.name}_limit", "int64")
        before += [] if p.limit is None else [Let(limit, Read(self._value(p.limit)))]
        turns, count = attrs["turns"], attrs["count"]
        if p.cond is None:
            before += [] if turns is not None else [Let(count, Max(limit, const(0, "int64")), count.most)]
            return [*before, For(index, count if turns is None else turns, Seq(tuple(turn)))]
        counted = (lambda value: [Let(count, value, count.most)]) if stacked else lambda value: []
        before += [Let(index, const(0, "int64")), *counted(const(0, "int64")), Let(going, Read(self._value(p.cond)))]
        more = going if p.limit is None else logical_and(going, index < limit)
        turn = [*counted(index + 1), *turn, Let(index, index + 1)]
        return [*before, While(more, Seq(tuple(turn)))]

    def _dims(self, binding):
        """Dimensions that a tensor holds."""
        source = self._value(binding.value.args[0])
        return [Let(dim, Read(_further(source, const(n, "int64"))), dim.most)
                for n, dim in enumerate(binding.value.attrs["dims"])]

    def _allocate(self, name, dtype, shape):
        part = _bytes(dtype, shape[-IMAGE:])  # of [channels, rows, columns, lanes] the rows are divided
        self.buffers.append(memory_plan.Buffer(identifier(name), _bytes(dtype, shape), part=part))
        self.dtypes.append(dtype)
        return Operand("arena", len(self.buffers) - 1, self.buffers[-1].name)


_STEPS = {"call_tir": _Builder._call, "call_if": _Builder._if, "call_loop": _Builder._loop,
          "tensor_to_shape": _Builder._dims}


def _further(operand, offset):
    """An Operand from `offset` elements on."""
    return replace(operand, offset=offset if is_const_int(operand.offset, 0) else operand.offset + offset)


def _count(shape):
    """Elements of a tensor, an expression."""
    return reduce(lambda a, b: a * b, shape, const(1, "int64"))


def lasting_borders(calls, plan):
    """The halos, with their places, that an instance may keep between runs: only tensors with that halo lie there."""
    alike = {}  # {border: buffers that have it}
    for call in calls:
        border = _border(call, plan)
        if border is not None:
            alike.setdefault(border, set()).add(call.operands[0].index)
    return {border for border, buffers in alike.items() if not _covered(buffers, plan)}


def without_repetitions(calls, plan):
    """The calls but those that would write what is still there: a border that an earlier call wrote at the same place,
    where since then no other tensor lay but those with the same border."""
    written, kept = {}, []  # {border: (time of the call, buffers with it)}
    for time, call in enumerate(calls):
        border = _border(call, plan)
        if border is None:
            kept.append(call)
            continue
        index = call.operands[0].index
        since, alike = written.get(border, (time, set()))
        alike.add(index)
        if since == time or _covered(alike, plan, since, time):
            since, alike = time, {index}
            kept.append(call)
        written[border] = since, alike
    return kept


def _border(call, plan):
    """(kernel, place) of a call that writes the border of a whole buffer, else None."""
    if call.border and not call.dims and _whole_buffer(call.operands):
        return call.kernel, plan.places[call.operands[0].index]
    return None


def _covered(alike, plan, since=0, time=float("inf")):
    """Whether from one call to another a tensor lies where buffers that are `alike` do, and is none of them."""
    place = next(iter(alike))
    return any(since <= b.last and b.first <= time and i not in alike and plan.meet(i, place)
               for i, b in enumerate(plan.buffers))


def _whole_buffer(operands):
    """Whether there is one operand, in the arena, from its beginning on."""
    return [o.kind for o in operands] == ["arena"] and is_const_int(operands[0].offset, 0)


def _launch(name, kernel, given, read, dims, comment):
    """The Launch of a DeviceKernel. given: {id of a parameter: Operand}; read: ids of those that are only read; dims:
    {dimension of the kernel's function: its value}."""
    params = [p for p in kernel.func.params if p in kernel.func.buffer_map]
    scalars = [p for p in kernel.func.params if p not in kernel.func.buffer_map]
    grid, block = (tuple(substitute(e, dims) for e in extents) for extents in (kernel.grid, kernel.block))
    return Launch(name, grid, block, kernel.shared, tuple(given[id(p)] for p in params), "global",
                  tuple(dims[p] for p in scalars), comment, sum(id(p) in read for p in params))


def _workspace(func):
    count = func.attrs.get("num_workspace", 0)
    buffers = func.buffers
    return buffers[len(buffers) - count:] if count else []


def _bytes(dtype, shape):
    size = const(dtype.bytes, "int64")
    for extent in shape:
        size = size * extent
    return size


def _shape_text(info):
    return "[" + ", ".join(str(_dim(s)) for s in info.shape) + "]"


def _dim(d):
    """A dimension as an int, or an expression as text."""
    return d.value if isinstance(d, IntImm) else RelaxPrinter().expr(d)
