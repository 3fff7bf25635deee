"""Images that never exist whole: a part of the graph is computed in bands of its result's rows, one after the other.

What a band needs of an image and the band before has made already is kept, not computed again: windows overlap by some
rows, and branches that meet again may need rows at different times.

    y = conv3x3(x), z = conv3x3(y)   in two bands becomes
    y0 = conv3x3(first rows of x);  z0 = conv3x3(y0);  kept = last rows of y0
    y1 = conv3x3(last rows of x);   z1 = conv3x3(kept and y1);  z = z0 and z1
"""
from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from .. import op as op_table
from ..expr import IntImm, is_const_int
from ..names import Names, unique_name
from ..relax.block_builder import call_op
from ..relax.expr import Constant, DataflowVar, TensorStructInfo, VarBinding, dataflow_function
from .graph import is_immediate, is_operator, on_main, uses

AXIS = 2  # rows, of plain images and of those in blocks of channels
MAPS = ("elementwise", "broadcast")


@dataclass(frozen=True)
class Streaming:
    """What is streamed: all that the variable called `last` needs of what is bound from the one called `first` on; into
    so many bands of rows."""

    first: str
    last: str
    bands: int


@on_main
def stream_rows(func, streaming):
    """Requires a dataflow "main". Ensures that the operators of a Streaming compute bands of rows, each the same
    numbers in the same way as before, and that no value but the last one's is whole. It comes when convolutions hold no
    padding that matters to their layouts. Operators whose values are needed elsewhere, or that mix rows in another way
    than windows do, stay as they are."""
    steps, number = Steps(func), {b.var.name: n for n, b in enumerate(func.bindings)}
    if streaming.first not in number or streaming.last not in number:
        return func
    members = steps.members(number[streaming.first], number[streaming.last])
    return _Streamed(steps, members, streaming.bands).run() if members else func


class Steps:
    """How the operators of a graph function read rows. steps: the _Step of each binding, None without one."""

    def __init__(self, func):
        self.func, used = func, uses(func)
        self.steps = [_step(b) for b in func.bindings]
        number = {id(b.var): n for n, b in enumerate(func.bindings)}
        self.readers = [{-1 if u is None else number[id(u.var)] for u in used.get(id(b.var), (None,))}
                        for b in func.bindings]

    def members(self, first, last):
        """The numbers of the bindings from `first` to `last` that can be streamed for the value of the last one alone,
        in order; () where there are none."""
        inside = {last} if self.steps[last] else set()
        for n in reversed(range(first, last)):
            if self.steps[n] and self.readers[n] <= inside:
                inside.add(n)
        return tuple(sorted(inside))


def rows_of(value):
    """The rows of an image; 0 of what is none, or has no constant size."""
    info = value.struct_info
    if not isinstance(info, TensorStructInfo) or info.shape is None or info.ndim <= AXIS or not all(
            isinstance(d, IntImm) for d in info.shape):
        return 0
    return info.shape[AXIS].value


# ---------------------------------------------------------------- which rows operators read

@dataclass(frozen=True)
class _Step:
    """How an operator reads rows. images: the numbers of the arguments that it reads rows of; row r of its result needs
    `reach` of them from r * stride - before on; padding: the attribute that says what is around an image, with the
    places of the rows before and behind in it."""

    images: tuple
    stride: int = 1
    before: int = 0
    reach: int = 1
    padding: str | None = None
    places: tuple = ()

    def reads(self, first, end):
        """The rows [first, end) of a result need these, where an image had no end."""
        return first * self.stride - self.before, (end - 1) * self.stride - self.before + self.reach


def _step(binding):
    """The _Step of a binding's operator; None where it has none."""
    call = binding.value
    if not is_operator(call) or rows_of(binding.var) < 2:
        return None
    if call.op in _WINDOWS:
        return _WINDOWS[call.op](call)
    return _map(call) if op_table.get(call.op).kind in MAPS or call.op == "lookup" else None


def _map(call):
    """An operator that maps elements one by one."""
    shape, images = call.struct_info.shape, []
    for n, a in enumerate(call.args[:1] if call.op == "lookup" else call.args):
        if is_immediate(a, call.op):
            continue
        info = getattr(a, "struct_info", None)
        if not isinstance(info, TensorStructInfo) or info.shape is None:
            return None
        at = AXIS - (len(shape) - info.ndim)
        if at < 0 or is_const_int(info.shape[at], 1):
            continue
        if isinstance(a, Constant) or info.ndim < len(shape) or rows_of(a) != shape[AXIS].value:
            return None
        images.append(n)
    return _Step(tuple(images)) if images else None


def _pad(call):
    width = call.attrs["pad_width"]
    if call.attrs["pad_mode"] != "constant" or min(width) < 0:
        return None
    return _Step((0,), before=width[2 * AXIS], padding="pad_width", places=(2 * AXIS, 2 * AXIS + 1))


def _window(call, size):
    attrs = call.attrs
    if attrs.get("ceil_mode") or not size:
        return None
    reach = (size - 1) * attrs["dilation"][0] + 1
    return _Step((0,), attrs["strides"][0], attrs["padding"][0], reach, "padding", (0, 2))


def _conv(call):
    """A convolution; weights in any layout have a dimension for the rows of the kernel."""
    size = call.args[1].struct_info.shape[call.attrs["kernel_layout"].index("H")]
    return _window(call, size.value if isinstance(size, IntImm) else 0)


def _pool(call):
    return _window(call, call.attrs["pool_size"][0])


_WINDOWS = {"nn.pad": _pad, "nn.conv2d": _conv, "nn.max_pool2d": _pool, "nn.avg_pool2d": _pool}


# ---------------------------------------------------------------- bands

@dataclass
class Image:
    """A value in bands. ends: how many of its rows are there after each band; starts: from which on the band, or a
    later one, needs them. What is there in the band at hand: `part`, rows from `begin` on. kept: those for the next
    band."""

    binding: VarBinding
    step: _Step
    ends: list
    starts: list
    part: DataflowVar | None = None
    begin: int = 0
    kept: DataflowVar | None = None

    @property
    def rows(self):
        return rows_of(self.binding.var)

    def new(self, band):
        """The rows that a band makes, (first, end)."""
        return self.ends[band - 1] if band else 0, self.ends[band]

    def again(self, band):
        """How many rows a band needs that an earlier one has made."""
        return max(self.ends[band - 1] - self.starts[band], 0) if band else 0

    def padded_to(self, end):
        """So many rows and more, that some are no padding, and that rows behind the last one come with it."""
        if self.step.padding != "pad_width":
            return end
        above, below = (self.binding.value.attrs["pad_width"][n] for n in self.step.places)
        return self.rows if end >= self.rows - below else max(end, above + 1)


class Images:
    """The Images of members of a function's Steps, in so many bands of the last one's rows. by_id: {id(variable):
    Image}."""

    def __init__(self, steps, members, bands):
        self.bands, self.by_id = bands, {}
        for n in members:
            b = steps.func.bindings[n]
            self.by_id[id(b.var)] = Image(b, steps.steps[n], [0] * bands, [rows_of(b.var)] * bands)
        self.all = list(self.by_id.values())
        self.last = self.all[-1]
        each = -(-self.last.rows // bands)
        self.last.ends = [min(each * (k + 1), self.last.rows) for k in range(bands)]
        for image in reversed(self.all):  # what reads it is known
            ends = accumulate(image.ends, max)
            image.ends = [image.padded_to(end) if end else 0 for end in ends]
            image.starts = list(accumulate(reversed(image.starts), min))[::-1]
            for source in self.sources(image):
                for band in range(bands):
                    self._need(image, source, band)

    def sources(self, image):
        """The Images that an Image is made of."""
        args = [image.binding.value.args[n] for n in image.step.images]
        return list({id(a): self.by_id[id(a)] for a in args if id(a) in self.by_id}.values())

    def _need(self, image, source, band):
        """Note which rows of its source an image needs for a band."""
        first, end = image.new(band)
        if first < end:
            first, end = image.step.reads(first, end)
            source.ends[band] = max(source.ends[band], min(end, source.rows))
            source.starts[band] = min(source.starts[band], max(first, 0))


class _Streamed:
    def __init__(self, steps, members, bands):
        self.func, self.members = (func := steps.func), members
        self.names = Names([*(p.name for p in func.params), *(b.var.name for b in func.bindings)])
        self.images, self.bindings = Images(steps, members, bands), []

    def run(self):
        members, readers = set(self.members), {}
        for image in self.images.all:
            for source in self.images.sources(image):
                readers[id(source)] = image  # the last one
        for n, b in enumerate(self.func.bindings):
            if n == self.members[-1]:
                self._all_bands(readers)
            elif n not in members:
                self.bindings.append(b)
        return dataflow_function(self.func.params, self.bindings, self.func.outputs, self.func.attrs)

    def _all_bands(self, readers):
        images, parts = self.images, []
        for band in range(images.bands):
            for image in images.all:
                first, end = image.new(band)
                if image is images.last:
                    parts += [self._computed(image, first, end)] if first < end else []
                else:
                    self._grow(image, band)
                for source in images.sources(image):
                    if readers[id(source)] is image and band + 1 < images.bands:
                        self._keep(source, band + 1)
        last = images.last.binding
        self.bindings.append(VarBinding(last.var, call_op("memory.join", *parts, axis=AXIS).replace(
            struct_info=last.var.struct_info)))

    def _grow(self, image, band):
        """Let `part` be what the band needs of an image: what was kept, and what it makes."""
        first, end = image.new(band)
        kept, image.begin = image.kept, first
        if kept is not None:
            image.begin = image.starts[band]
            image.part = kept if first == end else self._emit(image, call_op("copy", kept))
        if first < end:
            new = self._computed(image, first, end)
            image.part = new if kept is None else self._emit(image, call_op("memory.join", image.part, new, axis=AXIS))

    def _keep(self, image, band):
        """Copy what the next band needs again: `part` may go then."""
        rows, begin = image.again(band), image.starts[band]
        if not rows:
            image.kept = None
        elif image.part is not image.kept or begin != image.begin:
            copied = self._emit(image, call_op("copy", self._cut(image, image.part, begin - image.begin, rows)))
            image.kept = self._emit(image, call_op("memory.join", copied, axis=AXIS))  # not fused with the next copy

    def _computed(self, image, first, end):
        """The rows [first, end) of an image, by its operator."""
        call, step = image.binding.value, image.step
        begin, stop = step.reads(first, end)
        args = list(call.args)
        for n in step.images:
            source = self.images.by_id.get(id(args[n]))
            rows = rows_of(args[n])
            inside = max(begin, 0), min(stop, rows)
            part, shift = (source.part, source.begin) if source else (args[n], 0)
            args[n] = self._cut(image, part, inside[0] - shift, inside[1] - inside[0])
        attrs = dict(call.attrs)
        if step.padding:
            around = list(attrs[step.padding])
            around[step.places[0]], around[step.places[1]] = max(-begin, 0), max(stop - rows, 0)
            attrs[step.padding] = tuple(around)
        return self._emit(image, call_op(call.op, *args, **attrs))

    def _cut(self, image, value, begin, rows):
        """Some rows of a value."""
        if rows == rows_of(value):
            return value
        return self._emit(image, call_op("memory.part", value, axis=AXIS, begin=begin, extent=rows))

    def _emit(self, image, value):
        old = image.binding.var
        var = DataflowVar(unique_name(old.name, self.names), value.struct_info, old.origin)
        self.bindings.append(VarBinding(var, value))
        return var
