"""The kernel of a recurrent layer, written as TensorIR: recurrences are beyond tensor expressions.

Per direction: one nest projects the inputs of all time steps; then a serial loop over time whose block updates the
state in place in the output `y_h` (`y_c`). Inner loops run over a row of the weights [D, K, G*H], contiguous in every
operand, and take up to four rows per pass, so that sums are loaded and stored once per four products.
"""
from __future__ import annotations

from ... import tir
from ...expr import IterVar, Range, Var, as_expr, const
from ...tir.region import access_regions

_PARALLEL_FROM = 1 << 18  # multiplications of an input projection worth spreading over threads
_ROWS_PER_PASS = (4, 2, 1)


def store(buffer, value, indices):
    """buffer[indices] = value, with Python ints allowed among the indices."""
    return tir.BufferStore(buffer, value, tuple(as_expr(i) for i in indices))


def nest(name, axes, make, reduce=(), kind="serial"):
    """Loops over axes {label: extent}, outermost first, around one block `name` whose body is make(*block variables).

    Axes in `reduce` are reductions; the outermost loop is of `kind`.
    """
    loops = [Var(label, "int32") for label in axes]
    iters = [IterVar(Range(const(0), const(extent)), Var("v_" + label, "int32"),
                     "reduce" if label in reduce else "spatial") for label, extent in axes.items()]
    body = make(*(iv.var for iv in iters))
    reads, writes = access_regions(body)
    stmt = tir.BlockRealize(tuple(loops), const(True),
                            tir.Block(tuple(iters), reads, writes, name, (), (), {}, None, body))
    for n, (loop, extent) in reversed(list(enumerate(zip(loops, axes.values())))):
        stmt = tir.for_(loop, extent, stmt, kind if n == 0 else "serial")
    return stmt


class Recurrence:
    """One layer under construction: its buffers and sizes, and the statements that both sides of a step share."""

    def __init__(self, name, args, attrs, out, gates):
        self.name, self.attrs = name, attrs
        labels = ("x", "w", "r", "b", "h0", "c0")
        # one tensor given twice (both initial states, say) is one parameter
        buffers = {id(a): tir.decl_buffer(a.shape, a.dtype, label) for a, label in reversed(list(zip(args, labels)))}
        self.x, w, r, self.b, *self.initial = (buffers[id(a)] for a in args)
        self.inputs = list({id(a): buffers[id(a)] for a in args}.values())
        self.outputs = [tir.decl_buffer([d.value for d in f.shape], f.dtype, label)
                        for f, label in zip(out.fields, ("y", "y_h", "y_c"))]
        self.y, *self.states = self.outputs
        self.dtype = self.x.dtype
        self.steps, self.batch, self.input_size = (s.value for s in self.x.shape)
        self.hidden, self.gates = attrs["hidden_size"], gates * attrs["hidden_size"]
        self.allocs, self.stmts = [], []
        self.w, self.r = self._rows("w", w), self._rows("r", r)
        self.projection = self.alloc("projection", (self.steps, self.batch, self.gates))
        self.scratch = self.alloc("candidate", (self.batch, self.hidden)) if name == "gru" else None
        self.direction, self.suffix = 0, ""

    def alloc(self, name, shape):
        """A temporary of the whole kernel."""
        self.allocs.append(tir.decl_buffer(shape, self.dtype, name))
        return self.allocs[-1]

    def _rows(self, label, weight):
        """The weight as [D, K, G*H]: itself, or a transposed copy made first."""
        if self.attrs["weight_layout"] == "DKG":
            return weight
        directions, gates, size = (s.value for s in weight.shape)
        rows = self.alloc(label + "_rows", (directions, size, gates))
        self.stmts.append(nest(f"{self.name}_{label}_rows", {"d": directions, "k": size, "j": gates}, lambda d, k, j:
                               store(rows, weight[d, j, k], (d, k, j))))
        return rows

    def each(self, name, count, make):
        """A block over the batch and `count` elements: make(b, j) is a store."""
        return nest(f"{self.name}_{name}{self.suffix}", {"b": self.batch, "j": count}, make)

    def accumulate(self, name, target, source, weight, first, count, outer=None):
        """target(.., j) += sum over k of source(.., k) * weight[d, k, first + j], j < count.

        target(b, j) gives (buffer, indices), source(b, k) an expression; `outer` {label: extent} adds loops outside,
        whose variables come first in both.
        """
        size = weight.shape[1].value
        rows = next(n for n in _ROWS_PER_PASS if size % n == 0)
        axes = {**(outer or {}), "b": self.batch, "k": size // rows, "j": count}

        def update(*v):
            *at, k, j = v
            buffer, index = target(*at, j)
            total = buffer[index]
            for n in range(rows):
                total = total + source(*at, k * rows + n) * weight[self.direction, k * rows + n, j + first]
            return store(buffer, total, index)

        work = size * count * self.batch
        for extent in (outer or {}).values():
            work *= extent
        kind = "parallel" if outer and work >= _PARALLEL_FROM else "serial"
        return nest(f"{self.name}_{name}{self.suffix}", axes, update, reduce=("k",), kind=kind)

    def project_inputs(self, unfolded):
        """projection = x . w + biases for all time steps; the last `unfolded` columns leave out the state's bias."""
        d, folded, p = self.direction, self.gates - unfolded, self.projection

        def bias(t, b, j):
            return store(p, self.b[d, j] + self.b[d, j + self.gates], (t, b, j))

        def input_bias(t, b, j):
            return store(p, self.b[d, j + folded], (t, b, j + folded))

        axes = {"t": self.steps, "b": self.batch}
        self.stmts.append(nest(f"{self.name}_bias{self.suffix}", {**axes, "j": folded}, bias))
        if unfolded:
            self.stmts.append(nest(f"{self.name}_input_bias{self.suffix}", {**axes, "j": unfolded}, input_bias))
        self.stmts.append(self.accumulate(
            "input", lambda t, b, j: (p, (t, b, j)), lambda t, b, k: self.x[t, b, k], self.w, 0, self.gates,
            {"t": self.steps}))

    def run_direction(self, direction, backward, step, functions, several, unfolded):
        """Append one direction's statements. step(self, now, functions) -> statements of the time step `now`."""
        self.direction, self.suffix = direction, f"_{direction}" if several else ""
        self.project_inputs(unfolded)
        for state, initial, label in zip(self.states, self.initial, "hc"):
            self.stmts.append(self.each(f"start_{label}", self.hidden, lambda b, j, s=state, i=initial:
                                        store(s, i[direction, b, j], (direction, b, j))))
        loop = Var("t", "int32")
        time = IterVar(Range(const(0), const(self.steps)), Var("v_t", "int32"), "scan")
        now = const(self.steps - 1) - time.var if backward else time.var
        body = tir.seq(*step(self, now, functions), self.each("y", self.hidden, lambda b, j: store(
            self.y, self.states[0][direction, b, j], (now, direction, b, j))))
        reads, writes = access_regions(body)
        block = tir.Block((time,), reads, writes, f"{self.name}_step{self.suffix}", (), (), {}, None, body)
        self.stmts.append(tir.for_(loop, self.steps, tir.BlockRealize((loop,), const(True), block)))

    # ------------------------------------------------ what steps are made of

    def state(self, b, j, which=0):
        return self.states[which][self.direction, b, j]

    def recur(self, name, now, first, count):
        """projection[now, :, first:first + count] += h . r"""
        return self.accumulate(name, lambda b, j: (self.projection, (now, b, j + first)), self.state, self.r, first,
                               count)

    def activate(self, name, now, first, count, function):
        """projection[now, :, first:first + count] through `function`, in place."""
        return self.each(name, count, lambda b, j: store(
            self.projection, function(self.projection[now, b, j + first]), (now, b, j + first)))

    def set_state(self, name, value, which=0):
        """states[which] = value(b, j)"""
        return self.each(name, self.hidden, lambda b, j: store(
            self.states[which], value(b, j), (self.direction, b, j)))


# ---------------------------------------------------------------- one time step of each layer

def _gru_step(k, now, functions):
    """Gates z, r, h. h' = (1 - z) * candidate + z * h."""
    size, p, scratch, d = k.hidden, k.projection, k.scratch, k.direction
    start = [k.recur("recur", now, 0, 2 * size), k.activate("gates", now, 0, 2 * size, functions[0])]
    if k.attrs["linear_before_reset"]:
        middle = [
            k.each("candidate_bias", size, lambda b, j: store(scratch, k.b[d, j + (k.gates + 2 * size)], (b, j))),
            k.accumulate("candidate_recur", lambda b, j: (scratch, (b, j)), k.state, k.r, 2 * size, size),
            k.each("candidate", size, lambda b, j: store(p, functions[1](
                p[now, b, j + 2 * size] + p[now, b, j + size] * scratch[b, j]), (now, b, j + 2 * size)))]
    else:
        middle = [
            k.each("reset", size, lambda b, j: store(scratch, p[now, b, j + size] * k.state(b, j), (b, j))),
            k.accumulate("candidate_recur", lambda b, j: (p, (now, b, j + 2 * size)), lambda b, i: scratch[b, i], k.r,
                         2 * size, size),
            k.activate("candidate", now, 2 * size, size, functions[1])]
    end = k.set_state("h", lambda b, j: p[now, b, j + 2 * size] + p[now, b, j] * (
        k.state(b, j) - p[now, b, j + 2 * size]))
    return [*start, *middle, end]


def _lstm_step(k, now, functions):
    """Gates i, o, f, c. c' = f * c + i * candidate; h' = o * function(c')."""
    size, p = k.hidden, k.projection
    return [
        k.recur("recur", now, 0, 4 * size),
        k.activate("gates", now, 0, 3 * size, functions[0]),
        k.activate("candidate", now, 3 * size, size, functions[1]),
        k.set_state("c", lambda b, j: (p[now, b, j + 2 * size] * k.state(b, j, 1)
                                       + p[now, b, j] * p[now, b, j + 3 * size]), 1),
        k.set_state("h", lambda b, j: p[now, b, j + size] * functions[2](k.state(b, j, 1)))]


def _rnn_step(k, now, functions):
    """h' = function(x . w + h . r + biases)."""
    return [k.recur("recur", now, 0, k.hidden),
            k.set_state("h", lambda b, j: functions[0](k.projection[now, b, j]))]


CELL_STEPS = {"gru": _gru_step, "lstm": _lstm_step, "rnn": _rnn_step}


def lower_recurrence(name, args, attrs, out, gates, functions, backward):
    """The PrimFunc of a layer over buffers (distinct inputs in order, then outputs).

    name: a key of CELL_STEPS; functions: activation builders per direction; backward: per direction, whether time
    runs from the last step. The function is its own schedule (attribute "tir.is_scheduled").
    """
    kernel = Recurrence(name, args, attrs, out, gates)
    unfolded = kernel.hidden if attrs.get("linear_before_reset") else 0
    for d, (reverse, fs) in enumerate(zip(backward, functions)):
        kernel.run_direction(d, reverse, CELL_STEPS[name], fs, len(backward) > 1, unfolded)
    return tir.prim_func(kernel.inputs + kernel.outputs, tir.seq(*kernel.stmts),
                         {"tir.is_scheduled": True, "num_outputs": len(kernel.outputs)},
                         kernel.allocs)

