"""Expressions of vectors to text in a dialect of C: calls of simd.h and of the headers beside it."""
from __future__ import annotations

from ..ir.dtype import DataType
from ..ir.expr import Broadcast, Call, Cast, FloatImm, Select, is_const_int
from ..ir.tir.intrinsics import (HALF_DOTS, INTEGER_DOTS, LOOKUPS, NARROW, NEAREST_HALVES, ROUNDS, VECTOR_CALLS,
                                 WORD_DOTS)
from ..ir.tir.stmt import BufferLoad
from .c_types import SMALL_FLOATS
from .precedence import POSTFIX, UNARY

VECTOR_OPERATORS = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}
VECTOR_CHOOSES = {"Min": "min", "Max": "max"}
VECTOR_REDUCTIONS = ("reduce_add", "reduce_min", "reduce_max", "reduce_greater")
OF_MEMORY = ("load_bytes", *(f"{name}_at" for name in INTEGER_DOTS))  # of the places of numbers
VECTOR_LANES = ("first_n", "evens", "odds", "lane", "fma_lane", "held", *NARROW.values(), "zip_words", "zip_pairs",
                "unzip_words", "nearest_f32", "add_scaled", *ROUNDS.values(), *(f"{name}_lane" for name in WORD_DOTS),
                *OF_MEMORY, *(name.replace("dot", "matrix_dot") for name in WORD_DOTS), *NEAREST_HALVES.values())
VECTOR_FUNCTIONS = VECTOR_CALLS | {"accumulate", "fma"}  # T_name(operands)
# Those of simd_half.h, beside sums of words that are put in order.
OF_HALVES = frozenset([*NEAREST_HALVES.values(), *HALF_DOTS, *(f"{name}_lane" for name in HALF_DOTS),
                       *(name.replace("dot", "matrix_dot") for name in HALF_DOTS)])
LOADED = {"int8": "i8", "uint8": "u8", "int16": "i16"}  # what T_load_... makes vectors of, and T_store_... of them
# a < b ? x : y and its like: (function, operands swapped, results swapped)
VECTOR_CHOICES = {"LT": ("lt", False, False), "LE": ("le", False, False), "GT": ("lt", True, False),
                  "GE": ("le", True, False), "EQ": ("eq", False, False), "NE": ("eq", False, True)}


class EmitError(ValueError):
    """A node that C text cannot express; the message names the pass that should have removed it."""


class Vectors:
    """What CExpr, which has the dialect and the names, prints of vectors."""

    def vector_access(self, verb, buffer, index, *value, widened=None, half=""):
        """The call that loads or stores ("load", "store") a vector of `buffer` at a Ramp; widened: the dtype that a
        load of integers, or of the halves of a name, converts to."""
        if verb == "store" and (rounded := _rounded_half(*value)) is not None:
            half, value = SMALL_FLOATS[str(rounded.dtype.element)], [rounded.value]
            widened = rounded.value.dtype
        elif verb == "store" and (bits := _bits_of_halves(*value)) is not None:
            value, widened = [bits], bits.dtype
        dtype = buffer.dtype.with_lanes(index.lanes)
        narrow = half or (LOADED.get(str(buffer.dtype), "") if verb == "store" or widened else "")
        dtype = widened or (DataType("int32").with_lanes(index.lanes) if narrow else dtype)
        self.use("half vectors" if half else "vectors", dtype)
        value = [v.value if narrow and not half and isinstance(v, Cast) else v for v in value]  # the store converts
        function = f"{self.dialect.vector(dtype)}_{verb}{narrow and f'_{narrow}'}"
        arguments = [f"&{self.place(buffer, index.base)}"]
        if index.count is not None:
            if not is_const_int(index.stride, 1):
                raise EmitError(f"{index.count} of {index.lanes} lanes of {buffer.name} are {index.stride} apart: "
                                "there are no parts of strided vectors")
            function += "_n"
            arguments.append(self.converted(index.count))
        elif not is_const_int(index.stride, 1):
            function += "_strided"
            arguments.append(self.index(index.stride, buffer))
        return f"{function}({', '.join([*arguments, *map(self.text, value)])})"

    def _vector(self, e, kind):
        if (load := _loaded_halves(e)) is not None:
            return self.vector_access("load", load.buffer, load.indices[0], widened=e.dtype), POSTFIX
        prefix = self.dialect.vector(e.dtype)
        self.use("vectors", e.dtype)
        if isinstance(e, Call) and e.op == "tir.if_then_else":  # one condition for all lanes
            return self._conditional(*e.args)
        if isinstance(e, Call) and e.op.removeprefix("tir.") in LOOKUPS.values():
            table, places = e.args
            at = self.place(table.buffer, table.indices[0])
            return f"{prefix}_{e.op.removeprefix('tir.')}(&{at}, {self.text(places)})", POSTFIX
        if isinstance(e, Call) and e.op in ("tir.load_words", "tir.load_pairs"):
            first = e.args[0]
            return f"{prefix}_{e.op.removeprefix('tir.')}(&{self.place(first.buffer, first.indices[0].base)})", POSTFIX
        if isinstance(e, Call) and e.op.removeprefix("tir.") in OF_HALVES:
            self.use("half vectors")
        if isinstance(e, Call) and e.op.removeprefix("tir.") in VECTOR_LANES:
            name, (first, *others) = e.op.removeprefix("tir."), e.args
            first = f"&{self.text(first, UNARY)}" if name in OF_MEMORY else self.text(first)
            return f"{prefix}_{name}({', '.join([first, *map(self.text, others)])})", POSTFIX
        if isinstance(e, Cast) and e.value.dtype.element in ("float32", "int32"):
            short = self.dialect.vector(e.value.dtype).partition("x")[0]
            return f"{prefix}_from_{short}({self.text(e.value)})", POSTFIX
        if isinstance(e, Cast) and (load := _loaded_halves(e.value)) is not None:
            return self.vector_access("load", load.buffer, load.indices[0], widened=e.dtype,
                                      half=SMALL_FLOATS[str(e.value.dtype.element)]), POSTFIX
        if isinstance(e, Cast) and isinstance(e.value, BufferLoad):
            return self.vector_access("load", e.value.buffer, e.value.indices[0], widened=e.dtype), POSTFIX
        if isinstance(e, Broadcast):
            name, args = "set1", (e.value,)
        elif kind in VECTOR_CHOOSES:
            name, e = choice(VECTOR_CHOOSES[kind], e)
            args = e.a, e.b
        elif kind in VECTOR_OPERATORS:
            name, args = VECTOR_OPERATORS[kind], (e.a, e.b)
        elif isinstance(e, Select) and type(e.condition).__name__ in VECTOR_CHOICES:
            name, args = self._vector_choice(e)
        elif isinstance(e, Call) and e.op.removeprefix("tir.") in VECTOR_FUNCTIONS:
            name, args = e.op.removeprefix("tir."), e.args
        else:
            what = e.op if isinstance(e, Call) else kind
            raise EmitError(f"{self.dialect.headers.get('vectors', self.dialect.name)} has no {what} of "
                            f"{e.dtype}: write what each lane computes, or a scalar loop")
        return f"{prefix}_{name}({', '.join(map(self.text, args))})", POSTFIX

    @staticmethod
    def _vector_choice(e):
        name, swap_operands, swap_results = VECTOR_CHOICES[type(e.condition).__name__]
        operands, results = (e.condition.a, e.condition.b), (e.true_value, e.false_value)
        return "select_" + name, (*operands[::-1 if swap_operands else 1], *results[::-1 if swap_results else 1])


def _loaded_halves(e):
    """The load of bits that lie in a row of which an expression makes halves; None for another."""
    loads = isinstance(e, Call) and e.op == "tir.reinterpret" and e.dtype.element in NEAREST_HALVES
    return e.args[0] if loads and isinstance(e.args[0], BufferLoad) else None


def _bits_of_halves(value):
    """The vector of float16 of which a value is the bits; None for another."""
    taken = isinstance(value, Call) and value.op == "tir.reinterpret" and value.args[0].dtype == "float16x8"
    return value.args[0] if taken else None


def _rounded_half(value):
    """The conversion to halves of which a value is the bits; None for another."""
    if not (isinstance(value, Call) and value.op == "tir.reinterpret"):
        return None
    rounded, = value.args
    return rounded if isinstance(rounded, Cast) and rounded.dtype.element in NEAREST_HALVES else None


def choice(name, e):
    """("min", e) or ("max", e) of integers or where one of the operands, which becomes the first, is a number: one
    instruction then passes on a NaN. Else ("minimum", e) or ("maximum", e)."""
    if not e.dtype.is_float or _is_number(e.a):
        return name, e
    return (name, e.replace(a=e.b, b=e.a)) if _is_number(e.b) else (name + "imum", e)


def _is_number(e):
    """Whether an expression is a constant other than NaN."""
    e = e.value if isinstance(e, Broadcast) else e
    return isinstance(e, FloatImm) and e.value == e.value
