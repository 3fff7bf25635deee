"""Random expression trees for the C printer, and what they mean: an evaluator in Python with C's types."""
import numpy as np

from ingot.ir import expr as E
from ingot.ir.dtype import DataType
from ingot.ir.folding import INTEGERS
from ingot.ir.tir.buffer import decl_buffer
from ingot.ir.tir.function import prim_func
from ingot.ir.tir.stmt import BufferLoad, BufferStore

INTS = [DataType(t) for t in ("int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64")]
FLOATS = [DataType(t) for t in ("float32", "float64")]
BOOL = DataType("bool")
DTYPES = [*INTS, *FLOATS, BOOL]
ROWS = 6
ARITHMETIC = (E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.Min, E.Max)
COMPARE = (E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE)


def buffers():
    """Two columns of ROWS numbers per dtype, as {dtype: Buffer}."""
    return {t: decl_buffer((2 * ROWS,), t, f"{t}_in") for t in DTYPES}


def columns(seed):
    """The numbers: {dtype: array}. Small ones mostly, so that few trees overflow, and extreme ones."""
    rng, found = np.random.default_rng(seed), {}
    for t in DTYPES:
        if t.is_float:
            found[t] = np.concatenate([rng.normal(0, 3, 2 * ROWS - 4), [0.0, -0.0, 1e30, -2.5]]).astype(t.numpy)
        elif t.is_bool:
            found[t] = rng.integers(0, 2, 2 * ROWS).astype(t.numpy)
        else:
            low = -9 if t.code == "int" else 0
            small = rng.integers(low, 10, 2 * ROWS - 2).astype(t.numpy)
            found[t] = np.concatenate([small, np.array([t.min_value(), t.max_value()], t.numpy)])
    return found


# ---------------------------------------------------------------- drawing

class Drawer:
    """Draws trees with random.Random `rng` that load inputs[dtype][row * 2 or row * 2 + 1]."""

    def __init__(self, rng, inputs, row):
        self.rng, self.inputs, self.row = rng, inputs, row

    def tree(self, dtype, depth):
        if depth == 0 or self.rng.random() < 0.1:
            return self.leaf(dtype)
        if dtype.is_bool:
            return self.condition(depth)
        kind = self.rng.choice(("arithmetic",) * 6 + ("select", "choice", "cast", "abs"))
        if kind == "arithmetic":
            return self.arithmetic(dtype, depth)
        if kind == "cast":
            return E.Cast(dtype, self.tree(self.rng.choice([t for t in DTYPES if t is not dtype]), depth - 1))
        if kind == "abs":
            return E.Call(dtype, "tir.abs", (self.tree(dtype, depth - 1),))
        condition, yes, no = self.tree(BOOL, depth - 1), self.tree(dtype, depth - 1), self.tree(dtype, depth - 1)
        return E.Select(condition, yes, no) if kind == "select" else E.Call(
            dtype, "tir.if_then_else", (condition, yes, no))

    def arithmetic(self, dtype, depth):
        kinds = [k for k in ARITHMETIC if not (k is E.FloorMod and dtype.is_float)]
        kind = self.rng.choice(kinds)
        a, b = self.tree(dtype, depth - 1), self.tree(dtype, depth - 1)
        if kind is E.Sub and self.rng.random() < 0.3:
            a = E.const(0, dtype)
        return kind(a, b)

    def condition(self, depth):
        kind = self.rng.choice(("compare",) * 4 + ("and", "or", "not", "cast"))
        if kind == "compare":
            dtype = self.rng.choice(DTYPES)
            return self.rng.choice(COMPARE)(self.tree(dtype, depth - 1), self.tree(dtype, depth - 1))
        if kind == "not":
            return E.Not(self.tree(BOOL, depth - 1))
        if kind == "cast":
            return E.Cast(BOOL, self.tree(self.rng.choice(DTYPES[:-1]), depth - 1))
        return (E.And if kind == "and" else E.Or)(self.tree(BOOL, depth - 1), self.tree(BOOL, depth - 1))

    def leaf(self, dtype):
        if self.rng.random() < 0.7:
            index = self.row * 2
            return BufferLoad(self.inputs[dtype], (index if self.rng.random() < 0.5 else index + 1,))
        if dtype.is_float:
            return E.const(self.rng.choice([0.0, -0.0, 1.0, -1.5, 0.1, 1e-7, 3e20, float("inf")]), dtype)
        if dtype.is_bool:
            return E.const(self.rng.randrange(2), dtype)
        small = self.rng.randrange(-9 if dtype.code == "int" else 0, 10)
        return E.const(self.rng.choice([small] * 8 + [dtype.min_value(), dtype.max_value()]), dtype)


def function_of(tree, inputs, row, name):
    """The lowered PrimFunc out[row] = tree."""
    out = decl_buffer((ROWS,), tree.dtype, "out")
    func = prim_func([*inputs.values(), out, row], BufferStore(out, tree, (row,)), {"global_symbol": name})
    return func.replace(body=func.root.body)


# ---------------------------------------------------------------- meaning

def evaluate(e, data, row):
    """The value of `e` for a row: a bool, an int or a numpy float. Integers wrap around, and a quotient by 0 is 0."""
    kind = type(e)
    if isinstance(e, (E.IntImm, E.FloatImm)):
        return e.dtype.numpy.type(e.value) if e.dtype.is_float else int(e.value)
    if kind is BufferLoad:
        value = data[e.buffer.dtype][2 * row + (1 if isinstance(e.indices[0], E.Add) else 0)]
        return value if e.dtype.is_float else int(value)
    if kind is E.Select or kind is E.Call and e.op == "tir.if_then_else":
        condition, yes, no = (e.condition, e.true_value, e.false_value) if kind is E.Select else e.args
        return evaluate(yes if evaluate(condition, data, row) else no, data, row)
    if kind is E.And:
        return int(evaluate(e.a, data, row) and evaluate(e.b, data, row))
    if kind is E.Or:
        return int(evaluate(e.a, data, row) or evaluate(e.b, data, row))
    if kind is E.Not:
        return int(not evaluate(e.a, data, row))
    if kind is E.Cast:
        return _cast(evaluate(e.value, data, row), e.value.dtype, e.dtype)
    if kind is E.Call:
        value = evaluate(e.args[0], data, row)
        return np.abs(value) if e.dtype.is_float else _in_type(abs(value), e.dtype)
    a, b = evaluate(e.a, data, row), evaluate(e.b, data, row)
    if kind in COMPARE:
        return int(bool(_COMPARED[kind](a, b)))
    if e.dtype.is_float:
        return _FLOAT[kind](a, b)
    if kind in (E.Div, E.Mod, E.FloorDiv, E.FloorMod) and b == 0:
        return 0
    return _in_type(INTEGERS[kind.__name__](a, b), e.dtype)


_COMPARED = {E.EQ: lambda a, b: a == b, E.NE: lambda a, b: a != b, E.LT: lambda a, b: a < b,
             E.LE: lambda a, b: a <= b, E.GT: lambda a, b: a > b, E.GE: lambda a, b: a >= b}
_FLOAT = {E.Add: lambda a, b: a + b, E.Sub: lambda a, b: a - b, E.Mul: lambda a, b: a * b, E.Div: lambda a, b: a / b,
          E.Mod: np.fmod, E.FloorDiv: lambda a, b: np.floor(a / b), E.Min: np.minimum, E.Max: np.maximum}


def _in_type(value, dtype):
    """An int result in its type, of which it takes the lowest bits."""
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if value > dtype.max_value() else value


def _cast(value, source, target):
    if target.is_bool:
        return int(value != 0)
    if target.is_float:
        exact = value if source.is_float else (np.uint64 if source == "uint64" else np.int64)(value)
        return exact.astype(target.numpy)
    if source.is_float:  # as x86 converts to 32 bits, and to 64, where what does not fit is the least number
        if target == "uint64" and value >= 2 ** 63:
            return int(value) if value < 2 ** 64 else 0
        bits = 32 if target.bits < 32 or target == "int32" else 64
        least = -2 ** (bits - 1)
        value = int(value) if np.isfinite(value) and least <= int(value) < -least else least
    return _in_type(value, target)
