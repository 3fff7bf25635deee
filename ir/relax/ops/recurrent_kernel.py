"""The kernel of a recurrent layer, written as TensorIR: recurrences are beyond tensor expressions.

The inputs of all time steps are projected at once: by a product before the layer, or by a nest of the kernel's own.
Then come loops over directions and time around a block, the step: it takes the states from the outputs `y_h` (`y_c`),
sums up the gates of all columns, makes the new states of them in stages, and puts these in place of the old ones. The
rule `recurrence` computes the sums per tile of columns, in registers.
"""
from __future__ import annotations

from ... import tir
from ...expr import as_expr, const
from .nests import axis, nest, nest_of_nests, size_of, store
from .recurrent_weights import weight as weight_of


class Recurrence:
    """One layer under construction: its buffers and sizes, and what steps are made of.

    In a step `direction` and `now` are expressions: the direction's number, the time step. Where the number of
    sequences is symbolic, steps are of one sequence, `row`, and the loop over sequences is outside that over time.
    """

    def __init__(self, name, args, attrs, out, gates, projected):
        self.name, self.attrs = name, attrs
        labels = ("p", "r", "b", "h0", "c0") if projected else ("x", "w", "r", "b", "h0", "c0")
        # one tensor given twice (both initial states, say) is one parameter
        buffers = {id(a): tir.decl_buffer(a.shape, a.dtype, label) for a, label in reversed(list(zip(args, labels)))}
        given = [buffers[id(a)] for a in args]
        self.inputs = list({id(a): buffers[id(a)] for a in args}.values())
        self.r, self.b, *self.initial = given[1:] if projected else given[2:]
        self.outputs = [tir.decl_buffer([size_of(d) for d in f.shape], f.dtype, label)
                        for f, label in zip(out.fields, ("y", "y_h", "y_c"))]
        self.y, *self.states = self.outputs
        self.steps, self.directions, self.sequences, self.hidden = (size_of(s) for s in self.y.shape)
        self.batch, self.row = (self.sequences if isinstance(self.sequences, int) else 1), None
        self.gates, self.columns = gates, gates * self.hidden
        self.transposed = not projected  # r is [D, G*H, H] then
        self.bias_start = 0 if projected else self.columns
        self.allocs, self.stmts, self.locals = [], [], []
        self.direction = self.now = self.odd = self.before = None
        self.suffix = ""  # of the names of blocks
        self.p = given[0] if projected else self._projection(*given[:2])

    def _temporary(self, name, shape, where):
        where.append(tir.decl_buffer(shape, self.y.dtype, name))
        return where[-1]

    def _projection(self, x, w):
        """x . w + the input's bias for all time steps and directions: [T, B, D*G*H]."""
        p = self._temporary("projection", (self.steps, self.sequences, self.directions * self.columns), self.allocs)
        columns = self.columns
        for d in range(self.directions):
            axes = {"t": self.steps, "b": self.sequences, "j": columns, "k": x.shape[2].value}
            self.stmts.append(nest(
                f"{self.name}_input_{d}", axes,
                lambda t, b, j, k: store(p, p[t, b, j + d * columns] + x[t, b, k] * w[d, j, k],
                                         (t, b, j + d * columns)),
                lambda t, b, j: store(p, self.b[d, j], (t, b, j + d * columns))))
        return p

    # ------------------------------------------------ what steps are made of

    def each(self, name, buffer, at, value):
        """buffer[at(b, j)] = value(b, j) for the whole batch and all columns."""
        return nest(f"{self.name}_{name}{self.suffix}", {"b": self.batch, "j": self.hidden},
                    lambda b, j: store(buffer, value(b, j), at(b, j)))

    def stage(self, name, value):
        """A tensor [B, H] of values for the time of a step: (statement, (b, j) -> element)."""
        made = self._temporary(name, (self.batch, self.hidden), self.locals)
        return self.each(name, made, lambda b, j: (b, j), value), lambda b, j: made[b, j]

    def recur(self, name, first, count, source):
        """Sums over k of source(b, k) * r for `count` gates from `first` on, starting from the state's bias:
        (statement, (gate, b, j) -> element).

        Every other step runs backwards over k: what it reads of r first is what was read last, and still in a cache
        that does not hold all of r.
        """
        made = self._temporary(name, (self.batch, count, self.hidden), self.locals)
        size, d = self.hidden, self.direction

        def product(b, g, j, k):
            state = k + self.odd * (size - 1 - k * 2)
            if self.transposed:
                return source(b, state) * self.r[d, j + (g + first) * size, state]
            return source(b, state) * weight_of(self.r, d, state, g + first, j)

        stmt = nest(
            f"{self.name}_{name}{self.suffix}", {"b": self.batch, "g": count, "j": size, "k": size},
            lambda b, g, j, k: store(made, made[b, g, j] + product(b, g, j, k), (b, g, j)),
            lambda b, g, j: store(made, self.b[d, j + (g + first) * size + self.bias_start], (b, g, j)))
        return stmt, lambda gate, b, j: made[b, gate - first, j]

    def projected(self, gate, b, j):
        return self.p[self.now, self.sequence(b), j + (self.direction * self.columns + gate * self.hidden)]

    def sequence(self, b):
        """The number of a step's sequence b."""
        return b if self.row is None else self.row

    def state(self, b, j, which=0):
        """An element of a state as it was before the step."""
        return self.before[which](b, j)

    def output(self, value):
        """The new hidden state, in y: (statement, (b, j) -> element)."""
        def place(b, j):
            return self.now, self.direction, self.sequence(b), j

        return self.each("output", self.y, place, value), lambda b, j: self.y[place(b, j)]

    def keep(self, *values):
        """Statements that make the new states, (b, j) -> element each, those of the next step."""
        return [self.each(f"keep_{label}", state, lambda b, j: (self.direction, self.sequence(b), j), value)
                for label, state, value in zip("hc", self.states, values)]

    # ------------------------------------------------ the whole

    def start(self):
        """The initial states are the first."""
        for label, state, initial in zip("hc", self.states, self.initial):
            self.stmts.append(nest(
                f"{self.name}_start_{label}", {"d": self.directions, "b": self.sequences, "j": self.hidden},
                lambda d, b, j: store(state, initial[d, b, j], (d, b, j))))

    def run(self, suffix, directions, now, step):
        """Append the loops over `directions` (first, count) and time; now(direction, step number) is when it is."""
        first, count = directions
        d, t = axis("d", const(count), "spatial"), axis("t", as_expr(self.steps), "scan")
        rows = [] if self.batch is self.sequences else [axis("b", self.sequences, "spatial")]
        self.direction, self.suffix, self.row = d.var + first, suffix, rows[0].var if rows else None
        self.now, self.odd = now(self.direction, t.var), t.var % 2
        copies, self.before = zip(*(
            self.stage(f"{label}_before", lambda b, j, state=state: state[self.direction, self.sequence(b), j])
            for label, state in zip("hc", self.states)))
        body = tir.seq(*copies, *step(self))
        self.stmts.append(nest_of_nests(f"{self.name}_step{suffix}", (d, *rows, t), body, self.locals))
        self.locals = []


# ---------------------------------------------------------------- one time step of each layer

def _gru_step(k, functions):
    """Gates z, r, h. h' = (1 - z) * candidate + z * h."""
    sigmoid, function = functions
    if k.attrs["linear_before_reset"]:
        sums, gate = k.recur("gates", 0, 3, k.state)
        stages = [sums]

        def candidate(b, j):
            reset = sigmoid(k.projected(1, b, j) + gate(1, b, j))
            return function(k.projected(2, b, j) + reset * gate(2, b, j))
    else:
        resets, reset = k.recur("reset_gate", 1, 1, k.state)
        scaling, scaled = k.stage("reset", lambda b, j: sigmoid(
            k.projected(1, b, j) + reset(1, b, j)) * k.state(b, j))
        sums, gate = k.recur("update_gate", 0, 1, k.state)
        candidates, other = k.recur("candidate_gate", 2, 1, scaled)
        stages = [resets, scaling, sums, candidates]

        def candidate(b, j):
            return function(k.projected(2, b, j) + other(2, b, j))

    made, value = k.stage("candidate", candidate)
    end, new = k.output(lambda b, j: value(b, j) + sigmoid(k.projected(0, b, j) + gate(0, b, j)) * (
        k.state(b, j) - value(b, j)))
    return [*stages, made, end, *k.keep(new)]


def _lstm_step(k, functions):
    """Gates i, o, f, c. c' = f * c + i * candidate; h' = o * function(c')."""
    sigmoid, function, last = functions
    sums, gate = k.recur("gates", 0, 4, k.state)

    def opened(which, b, j):
        return sigmoid(k.projected(which, b, j) + gate(which, b, j))

    cell, new_cell = k.stage("cell", lambda b, j: opened(2, b, j) * k.state(b, j, 1) + opened(0, b, j) * function(
        k.projected(3, b, j) + gate(3, b, j)))
    keeping, kept = k.stage("cell_kept", new_cell)  # so that a tile needs no other to have read the old state
    end, new = k.output(lambda b, j: opened(1, b, j) * last(new_cell(b, j)))
    return [sums, cell, keeping, end, *k.keep(new, kept)]


def _rnn_step(k, functions):
    """h' = function(x . w + h . r + biases)."""
    sums, gate = k.recur("gates", 0, 1, k.state)
    end, new = k.output(lambda b, j: functions[0](k.projected(0, b, j) + gate(0, b, j)))
    return [sums, end, *k.keep(new)]


CELL_STEPS = {"gru": _gru_step, "lstm": _lstm_step, "rnn": _rnn_step}


def lower_recurrence(name, args, attrs, out, gates, functions, backward, projected):
    """The PrimFunc of a layer over buffers (distinct inputs in order, then outputs).

    name: a key of CELL_STEPS; functions: activation builders per direction; backward: per direction, whether time
    runs from the last step; projected: whether the first argument is the input's projection.
    """
    k = Recurrence(name, args, attrs, out, gates, projected)
    k.start()
    last = k.steps - 1
    if len(set(functions)) == 1 and len(backward) == 2:  # one loop over both, which threads may share
        k.run("", (0, 2), lambda d, t: t + d * (last - t * 2), lambda k: CELL_STEPS[name](k, functions[0]))
    else:
        for d, (reverse, fs) in enumerate(zip(backward, functions)):
            k.run(f"_{d}" if d else "", (d, 1), lambda _, t, reverse=reverse: last - t if reverse else t,
                  lambda k, fs=fs: CELL_STEPS[name](k, fs))
    return tir.prim_func(k.inputs + k.outputs, tir.seq(*k.stmts), {"num_outputs": len(k.outputs)}, k.allocs)
