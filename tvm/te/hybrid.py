"""te.hybrid: tensor operations written as Python functions with loops over elements."""
from __future__ import annotations

import ast
import math
import sys
from collections import Counter
from dataclasses import dataclass
from functools import update_wrapper
from types import FunctionType

import numpy as np

from ...ir import expr as E
from ...ir.expr import PrimExpr, as_expr, const
from ...ir.node import collect
from ...ir.script.block_parser import Frame, Scoped, joined
from ...ir.script.errors import Source
from ...ir.script.loops import loop
from ...ir.script.macros import decorator, surroundings
from ...ir.script.namespaces import is_number
from ...ir.script.specs import Head, Loops, Spec
from ...ir.script.tir_parser import TIRParser
from ...ir.target import Target
from ...ir.te import Tensor, extern
from ...ir.tir import intrin
from ...ir.tir.buffer import Buffer, decl_buffer
from ...ir.tir.stmt import BufferLoad, BufferStore, DeclBuffer, SeqStmt, seq

DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
MATH = ("sqrt", "log", "exp", "tanh", "sigmoid", "power", "round", "popcount")


def script(pyfunc):
    """@te.hybrid.script: a function of tensors whose loops, conditions and stores, over elements of its arguments, of
    output_tensor(shape, dtype) and of allocate(shape, dtype, scope), become one operation.

    Called with tensors, also in lists, (and scalar variables, numbers) it returns the tensor, or the list of tensors,
    that it returns; called with arrays alone it runs as Python does, where what output_tensor and allocate make starts
    as zeros: compiled, it is what was stored. Loops run over range, serial, parallel, vectorize, unroll, const_range,
    whose variable is a number, and bind(thread, extent). A number that is assigned again is kept in memory of its own,
    in the dtype of its first value.
    """
    frame = sys._getframe(1)

    def read(func):
        source, env = Source.of(func, frame), surroundings(func, frame)

        def made(*args):
            if any(map(_is_symbolic, args)):
                return _Parser(source, env, True).tensors(source.parse()[0], args)
            return FunctionType(func.__code__, {**func.__globals__, **EMULATED}, func.__name__, func.__defaults__,
                                func.__closure__)(*args)
        return update_wrapper(made, func)
    return decorator(read, (pyfunc,))


def _is_symbolic(arg):
    if isinstance(arg, (list, tuple)):
        return any(map(_is_symbolic, arg))
    return isinstance(arg, (Tensor, PrimExpr))


@dataclass(frozen=True)
class _Made(Spec):
    """What output_tensor and allocate stand for until it has a name."""

    shape: tuple
    dtype: str
    scope: str
    is_output: bool = False
    place = "name = ..."


@dataclass(frozen=True)
class _Unrolled(Spec):
    numbers: range
    place = "`for ... in`"


@dataclass(frozen=True)
class _Cell:
    """A local number that changes: the element of its buffer."""

    buffer: Buffer


def _shape(shape):
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def _constants(*bounds):
    return _Unrolled(range(*(int(b) for b in bounds)))


def _max_num_threads(allow_none=True):
    """Of a block of the target around, 1 where that is none of a GPU's."""
    launch = getattr(Target.current(), "launch", None)
    return launch.max_threads if launch else 1


def _least(bigger):
    """min or max of numbers or expressions."""
    build, python = (E.Max, max) if bigger else (E.Min, min)

    def of(*values):
        if not any(isinstance(v, PrimExpr) for v in values):
            return python(*values)
        result = values[0]
        for v in values[1:]:
            result = build(*E.match_dtype(*_alike(result, v)))
        return result
    return of


def _alike(a, b):
    like = a if isinstance(a, PrimExpr) else b
    return tuple(v if isinstance(v, PrimExpr) else const(v, like.dtype) for v in (a, b))


def _cast(dtype):
    return lambda value: E.cast(value, dtype) if isinstance(value, PrimExpr) else const(value, dtype)


NAMES = {
    "output_tensor": lambda shape, dtype: _Made(_shape(shape), dtype, "global", True),
    "allocate": lambda shape, dtype, scope="global": _Made(_shape(shape), dtype, scope),
    "range": loop("serial"), "serial": loop("serial"), "parallel": loop("parallel"),
    "vectorize": loop("vectorized"), "unroll": loop("unrolled"), "const_range": _constants,
    "bind": lambda thread, extent: Loops((Head("thread_binding", None, extent, thread),)),
    "len": lambda value: value.shape[0] if isinstance(value, Buffer) else len(value),
    "ceil_div": lambda a, b: (a + b - 1) // b, "max_num_threads": _max_num_threads,
    "likely": lambda condition: condition, "min": _least(False), "max": _least(True),
    "inf": lambda dtype: const(math.inf, dtype), "ninf": lambda dtype: const(-math.inf, dtype),
    **{name: getattr(intrin, name) for name in MATH}, **{name: _cast(name) for name in DTYPES},
}
EMULATED = {
    "output_tensor": np.zeros, "allocate": lambda shape, dtype, scope="global": np.zeros(shape, dtype),
    **dict.fromkeys(("serial", "parallel", "vectorize", "unroll", "const_range"), range),
    "bind": lambda thread, extent: range(extent), "ceil_div": NAMES["ceil_div"], "likely": NAMES["likely"],
    "max_num_threads": _max_num_threads, "inf": lambda dtype: np.inf, "ninf": lambda dtype: -np.inf,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "popcount": lambda x: bin(x).count("1"),
    **{name: getattr(np, name) for name in (*MATH, *DTYPES) if hasattr(np, name) and name not in ("sigmoid", "popcount")},
}


class _Parser(TIRParser):
    """Reads the body of a hybrid function, for given arguments."""

    def tensors(self, node, args):
        """The tensors that the function of a syntax tree returns."""
        params = [a.arg for a in self._arguments(node)]
        if len(params) != len(args):
            self.fail(node, f"{node.name} takes {len(params)} arguments, not {len(args)}")
        self.inputs, self.outputs, self.results = {}, [], None
        self.last = node.body[-1]
        self.at_once = 1  # how many scopes lie around the innermost loop whose iterations run at once
        self.assigned, self.changing = _assigned(node)
        self.scopes[0].update(NAMES)
        self.scopes.append({name: self._as_buffers(a, name) for name, a in zip(params, args)})
        self.frames.append(Frame())
        body = joined(self.suite(node.body))
        if not self.results:
            self.fail(node, f"{node.name} returns nothing: let it return what output_tensor made")
        left = [b for b in self.outputs if b not in self.results]
        if left:
            self.fail(node, f"{node.name} does not return {left[0].name}, an output: allocate it instead")
        made = extern([b.shape for b in self.results], list(self.inputs), lambda *_: body, node.name,
                      [b.dtype for b in self.results], list(self.inputs.values()), self.results)
        return made if len(made) > 1 else made[0]

    def _buffer_of(self, tensor, name):
        return self.inputs.setdefault(tensor, decl_buffer(tensor.shape, tensor.dtype, name))

    def _as_buffers(self, arg, name):
        if isinstance(arg, (list, tuple)):
            return [self._as_buffers(a, f"{name}{n}") for n, a in enumerate(arg)]
        return self._buffer_of(arg, name) if isinstance(arg, Tensor) else arg

    def _value_of(self, name):
        """What a name of the function stands for here; None where it has no value."""
        return next((scope[name] for scope in reversed(self.scopes[1:]) if name in scope), None)

    def eval_Name(self, node):
        if node.id in self.assigned and self._value_of(node.id) is None:
            self.fail(node, f"{node.id} has no value here: what a loop or branch assigns ends with it, so assign a "
                            "first value before")
        value = super().eval_Name(node)
        if isinstance(value, Tensor):  # one from around the function
            return self._buffer_of(value, node.id)
        return BufferLoad(value.buffer, (const(0),)) if isinstance(value, _Cell) else value

    def assign(self, target, value, node):
        name, is_scalar = getattr(target, "id", ""), is_number(value) or isinstance(value, PrimExpr)
        if name in self.changing and is_scalar:
            return self._changed(name, self.as_scalar(value, node), node)
        for t in getattr(target, "elts", [target]):
            if getattr(t, "id", "") in self.changing and (t is not target or self._value_of(t.id) is not None):
                self.fail(node, f"{t.id} is assigned more than once: assign it alone, and numbers only")
        if isinstance(value, _Made):
            return self._named(name, value)
        if name and is_scalar and not collect(value, BufferLoad):
            return self.define(name, value)  # what it means does not change
        return super().assign(target, value, node)

    def stmt_AnnAssign(self, node):
        self.fail(node, "a hybrid function says no dtypes of names: write name = float32(value)")

    def subscript(self, node, base, index):
        """Of lists of lists too, by several numbers at once."""
        if isinstance(base, (list, tuple)) and isinstance(index, tuple):
            for i in index:
                base = super().subscript(node, base, int(i))
            return base
        return super().subscript(node, base, index)

    def _store(self, target, node, value):
        stored = super()._store(target, node, value)
        if any(stored.buffer is b for b in self.inputs.values()):
            self.fail(target, f"{stored.buffer.name} is an input, which an operation does not change: copy it to what "
                              "allocate makes")
        return stored

    def _named(self, name, made):
        buffer = decl_buffer(tuple(map(as_expr, made.shape)), made.dtype, name, made.scope)
        self.define(name, buffer)
        if made.is_output:
            return self.outputs.append(buffer)
        return Scoped(lambda rest: DeclBuffer(buffer, rest))

    def _changed(self, name, value, node):
        """A store to a local number; the first one makes its memory."""
        cell = self._value_of(name)
        if cell is None:
            buffer = decl_buffer((1,), value.dtype, name, "local")
            self.define(name, _Cell(buffer))
            return Scoped(lambda rest: DeclBuffer(buffer, seq(BufferStore(buffer, value, (const(0),)), rest)))
        if not isinstance(cell, _Cell):
            self.fail(node, f"{name} has a value that cannot change: assign to another name")
        place, dtype = (const(0),), cell.buffer.dtype
        if E.match_dtype(BufferLoad(cell.buffer, place), value)[0].dtype != dtype:
            self.fail(node, f"{name} is {dtype} from its first value on, which cannot hold this {value.dtype}: start "
                            f"with {value.dtype}(...)")
        if any(name in scope for scope in self.scopes[1:self.at_once]):
            self.fail(node, f"{name} is assigned before a loop whose iterations run at once, so these cannot change "
                            "it: give them a name of their own")
        return BufferStore(cell.buffer, E.cast(value, dtype), place)

    def stmt_AugAssign(self, node):
        if isinstance(node.target, ast.Name):
            read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
            return self.assign(node.target, self.eval(ast.copy_location(ast.BinOp(read, node.op, node.value), node)),
                               node)
        return super().stmt_AugAssign(node)

    def stmt_For(self, node):
        spec = self.eval(node.iter)
        if isinstance(node.target, ast.Name) and self._value_of(node.target.id) is not None:
            self.fail(node.target, f"{node.target.id} has a value already: give the loop's variable a name of its own")
        if not isinstance(spec, _Unrolled):
            around = self.at_once
            if any(head.kind not in ("serial", "unrolled") for head in getattr(spec, "heads", ())):
                self.at_once = len(self.scopes)
            nest = super().stmt_For(node)
            self.at_once = around
            return nest
        turns = []
        for number in spec.numbers:
            self.scopes.append({node.target.id: number})
            turns.append(joined(self.suite(node.body)))
            self.scopes.pop()
        return SeqStmt(tuple(turns)) if len(turns) > 1 else joined(turns)

    def stmt_Return(self, node):
        values = self.eval(node.value) if node.value is not None else None
        self.results = list(values) if isinstance(values, tuple) else [values]
        if node is not self.last or not all(any(v is b for b in self.outputs) for v in self.results):
            self.fail(node, "the last statement, and no other, returns what output_tensor made, one or several")
        if len(set(self.results)) < len(self.results):
            self.fail(node, "an output is returned twice: fill one for each")


def _assigned(node):
    """The names that a function assigns, loops included, and those of them whose values change: they are assigned more
    than once, parameters and variables of loops once more."""
    stores = Counter(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    loops = Counter(n.id for f in ast.walk(node) if isinstance(f, ast.For) for n in ast.walk(f.target)
                    if isinstance(n, ast.Name))
    again = {n.target.id for n in ast.walk(node) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    params = {a.arg for a in node.args.args}
    changing = {n for n in stores if stores[n] - loops[n] + (n in loops) + (n in params) > 1} | again
    return set(stores), changing


__all__ = ["script"]
