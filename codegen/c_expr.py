"""Expressions to text in a dialect of C, with no parenthesis that C's precedence does not need (or gcc's -Wparentheses
ask for).

C computes in int or wider, whatever the operands, so arithmetic of narrower types is cast back to its type, and casts
that C makes by itself (int8 to int32, an operand to the other's int64) are not written.

Integers that tensors hold may be any: arithmetic on them is by functions of ingot_math.h, which define what C leaves
undefined. Loop variables and dimensions, and sums in an index, which lie inside the buffer, are computed by operators.
"""
from __future__ import annotations

from ..ir.dtype import DataType
from ..ir.expr import (Add, Call, Cast, Div, FloatImm, IntImm, Max, Mod, Mul, Ramp, Select, StringImm, Sub, Var,
                       is_const_int)
from ..ir.node import collect
from ..ir.tir.intrinsics import ALL_INTRINSICS
from ..ir.tir.stmt import BufferLoad
from .c_types import SMALL_FLOATS, c_string, dlpack_type, fits_int, literal
from .c_vectors import VECTOR_REDUCTIONS, EmitError, Vectors, choice
from .dialect import C
from .micro_kernels import micro_kernel
from .packed_names import packed_symbol
from .precedence import (ADDITIVE, AND, BITAND, BITOR, BITXOR, COMMA, CONDITIONAL, EQUALITY, MULTIPLICATIVE, OR,
                         POSTFIX, RELATIONAL, SHIFT, UNARY)

PRECEDENCE_OF = {"sum": ADDITIVE, "product": MULTIPLICATIVE, "": POSTFIX}  # of numbers that Strides spells

# node class -> (operator, precedence). All associate to the left.
ARITHMETIC = {"Add": ("+", ADDITIVE), "Sub": ("-", ADDITIVE), "Mul": ("*", MULTIPLICATIVE),
              "Div": ("/", MULTIPLICATIVE), "Mod": ("%", MULTIPLICATIVE)}
COMPARISONS = {"EQ": ("==", EQUALITY), "NE": ("!=", EQUALITY), "LT": ("<", RELATIONAL), "LE": ("<=", RELATIONAL),
               "GT": (">", RELATIONAL), "GE": (">=", RELATIONAL)}
TRUNCATING = {"FloorDiv": "Div", "FloorMod": "Mod"}  # the same for unsigned operands

BITS = {"bitwise_and": ("&", BITAND), "bitwise_or": ("|", BITOR), "bitwise_xor": ("^", BITXOR),
        "shift_left": ("<<", SHIFT), "shift_right": (">>", SHIFT)}
SHIFTS = ("shift_left", "shift_right")
COUNTS = ("popcount", "clz")
FLOAT_TESTS = ("isnan", "isinf")

# The helpers of ingot_math.h by the type they compute in, and the type that narrower integers are computed in.
SUFFIX = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "uint32": "u32", "uint64": "u64"}
COMPUTED_IN = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "int32", "uint16": "int32",
               "uint32": "int64"}

# Operators on integers of tensors: the functions of ingot_math.h where C defines less than they need. Sums of narrower
# types, and what wraps around in unsigned ones, are C's own.
WRAPPING = {"Add": "add", "Sub": "sub", "Mul": "mul"}
DIVISIONS = {"Div": "div", "Mod": "mod"}
UNSIGNED = (*DIVISIONS.values(), *SHIFTS)  # the functions that there are of uint32 and uint64, too
# What headers need others for.
_WITH = {"half vectors": ("vectors", "integer vectors", "half", "helpers"), "half arithmetic": ("half", "helpers")}
# What holds the integers of a float that is cast to a type.
CAST_THROUGH = {**{f"{u}int{bits}": "int32" for u in ("", "u") for bits in (8, 16)}, "int32": "int32",
                "uint32": "int64", "int64": "int64", "uint64": "uint64"}


class CExpr(Vectors):
    """Prints expressions of one function. `names` maps Vars and Buffers (by identity) to C names; `used` collects the
    headers that the text needs ("math.h", "ingot_math.h", "simd.h"); `data` are the Vars whose values come from tensors
    and may be any; `strides`, a Strides, gives numbers in indices their names."""

    def __init__(self, names, used, dialect=C, strides=None):
        self.names, self.used, self.data, self.dialect, self.strides = names, used, set(), dialect, strides
        self.sums = set()  # ids of the sums and products that are an index

    def use(self, what, dtype=None):
        """Notes the header, if any, that what the text uses is in; dtype: that of vectors."""
        if what == "vectors" and dtype is not None and dtype.is_int:
            self.use("integer vectors")
        if what == "vectors" and dtype is not None and dtype.element == "float16":
            self.use("half arithmetic")
        for other in _WITH.get(what, ()):
            self.use(other)
        if what in self.dialect.headers:
            self.used.add(self.dialect.headers[what])

    def type(self, dtype):
        return self.dialect.type(DataType(dtype))

    def literal(self, dtype, value):
        return literal(dtype, value, self.dialect.numbers)

    def helper(self, name):
        """A function of the runtime."""
        self.use("helpers")
        return self.dialect.runtime + name

    def text(self, e, outer=COMMA):
        """The C text of e, parenthesised when it binds looser than `outer`."""
        text, precedence = self._print(e)
        return f"({text})" if precedence < outer else text

    def converted(self, e):
        """The text of e where C converts to e's type by itself: a value that is stored or passed to a function.

        Tests and choices between narrow integers are ints, of which compilers do not always see how small they are.
        """
        if e.dtype.lanes == 1 and e.dtype.bits < 32 and (_is_choice(e) if e.dtype.is_int else _holds_test(e)):
            return f"({self.type(e.dtype)})({self.text(e)})"
        return self.text(_inner(e))

    def _print(self, e):
        kind = type(e).__name__
        if e.dtype.lanes > 1 and kind != "BufferLoad":
            return self._vector(e, kind)
        if hasattr(e, "a") and e.a.dtype in SMALL_FLOATS:
            raise EmitError(f"{self.dialect.name} does not compute in {e.a.dtype}; run SmallFloatComputeLegalize first")
        if e.dtype.code == "uint":
            kind = TRUNCATING.get(kind, kind)
        if kind in ARITHMETIC:
            function = self.function(e, kind)
            if function:
                return self._helper(function, e.dtype, e.a, e.b)
            return self._arithmetic(e, kind, *ARITHMETIC[kind])
        if kind in COMPARISONS:
            op, precedence = COMPARISONS[kind]
            left, right = self._operands(e, ADDITIVE, ADDITIVE)
            return f"{left} {op} {right}", precedence
        method = getattr(self, "_" + kind, None)
        if method is None:
            raise EmitError(f"{self.dialect.name} has no {kind}; run the lowering passes first")
        return method(e)

    def _Shuffle(self, e):
        raise EmitError(f"{self.dialect.name} has no {e}: a Shuffle takes lanes of what is loaded and computed from that")

    # ------------------------------------------------------------ operators

    def is_data(self, e):
        """Whether an expression depends on what a tensor holds, or on nothing: constants may be any numbers, too."""
        leaves = collect(e, (BufferLoad, Var))
        return not leaves or any(isinstance(x, BufferLoad) or x in self.data for x in leaves)

    def function(self, e, kind):
        """The function of ingot_math.h that computes what C's operator would leave undefined; None where that does."""
        if not e.dtype.is_int or id(e) in self.sums:
            return None
        if kind in DIVISIONS:
            safe = isinstance(e.b, IntImm) and e.b.value not in (0, -1)
            return None if safe or not self.is_data(e) else DIVISIONS[kind]
        wraps = e.dtype.code == "int" and e.dtype.bits >= 32 and _bits(e) > e.dtype.bits and self.is_data(e)
        return WRAPPING[kind] if wraps else None

    def index(self, e, *buffers):
        """The text of an index into buffers, or a part of one, whose sums and products overflow no more than it leaves
        these."""
        e = self.strides.index(e, buffers) if self.strides and buffers else e
        self._mark_sums(e)
        return self.converted(e)

    def _mark_sums(self, e):
        if isinstance(e, (Add, Sub, Mul)):
            self.sums.add(id(e))
            self._mark_sums(e.a)
            self._mark_sums(e.b)
        elif isinstance(e, (Div, Mod)) and isinstance(e.b, IntImm):
            self._mark_sums(e.a)
        elif isinstance(e, Cast) and e.value.dtype.is_int:
            self._mark_sums(e.value)

    def _arithmetic(self, e, kind, op, precedence):
        if kind == "Mod" and e.dtype.is_float:
            return self._intrinsic("fmod", e.dtype, e.a, e.b)
        if kind == "Sub" and isinstance(e.a, IntImm) and e.a.value == 0 and e.dtype.code == "int":
            text, precedence = "-" + self._positive(e.b, UNARY), UNARY
        elif kind == "Add" and isinstance(e.b, IntImm) and -(1 << 31) < e.b.value < 0:
            left, right = self._operands(e.replace(b=IntImm(e.b.dtype, -e.b.value)), precedence, precedence + 1)
            text = f"{left} - {right}"
        else:
            left, right = self._operands(e, precedence, precedence + 1)
            if op in "+-" and right.startswith("-"):
                right = f"({right})"
            text = f"{left} {op} {right}"
        if e.dtype.is_float or e.dtype.bits >= 32 and not e.dtype.is_bool:
            return text, precedence
        return f"({self.type(e.dtype)})({text})", UNARY

    def _positive(self, e, outer):
        """The text of e, parenthesised when it starts with a minus, which must not follow another one."""
        text = self.text(e, outer)
        return f"({text})" if text.startswith("-") else text

    def _operands(self, e, left, right):
        """The texts of e.a and e.b, of which at least one has e's C type, or both promote to it."""
        a, b = e.a, e.b
        if a.dtype == "int32":
            return self.text(_inner(a), left), self.text(_inner(b), right)
        if a.dtype == "uint16" and type(e).__name__ == "Mul":  # int may be too narrow for the product
            return f"({self.type('uint32')}){self.text(a, UNARY)}", self.text(b, right)
        if a.dtype == "int64":
            if _inner(a) is not a and _is_int64(b) and _inner(b) is b:
                return self.text(_inner(a), left), self.text(b, right)
            if _is_int64(a):
                return self.text(a, left), self.text(_inner(b), right)
            if not _is_int64(b):
                return f"({self.type('int64')}){self.text(a, UNARY)}", self.text(b, right)
        return self.text(a, left), self.text(b, right)

    def _And(self, e):
        return f"{self.text(e.a, AND)} && {self.text(e.b, AND + 1)}", AND

    def _Or(self, e):  # gcc asks for parentheses around && within ||
        left, right = (self.text(x, EQUALITY if type(x).__name__ == "And" else level)
                       for x, level in ((e.a, OR), (e.b, OR + 1)))
        return f"{left} || {right}", OR

    def _Not(self, e):
        return "!" + self.text(e.a, UNARY), UNARY

    def _Select(self, e):
        return self._conditional(e.condition, e.true_value, e.false_value)

    def _conditional(self, condition, yes, no):
        text = f"{self.text(condition, OR)} ? {self.text(yes, OR)} : {self.text(no, CONDITIONAL)}"
        return text, CONDITIONAL

    def _Cast(self, e):
        if e.dtype in SMALL_FLOATS or e.value.dtype in SMALL_FLOATS:
            return self._small_float(e.value, e.dtype)
        if e.dtype.is_bool:
            return f"{self.text(e.value, ADDITIVE)} != {self.literal(e.value.dtype, 0)}", EQUALITY
        if any(t.is_int and t.bits < 8 for t in (e.dtype, e.value.dtype)):
            return self._few_bits(e)
        if e.value.dtype.is_float and e.dtype.is_int:
            wide = CAST_THROUGH[str(e.dtype)]
            text = f"{self.helper(f'{SUFFIX[e.value.dtype]}_to_{SUFFIX[wide]}')}({self.converted(e.value)})"
            return (text, POSTFIX) if wide == e.dtype else (f"({self.type(e.dtype)}){text}", UNARY)
        return f"({self.type(e.dtype)}){self.text(e.value, UNARY)}", UNARY

    def _few_bits(self, e):
        """A conversion from or to an integer of less than 8 bits, which are the lowest of a byte."""
        source, dtype = e.value.dtype, e.dtype
        if source.is_float:
            return self._few_bits(e.replace(value=Cast(DataType("int32"), e.value)))
        wide, text = self.type("uint32"), self.text(e.value, UNARY)
        if source.bits < 8 and source.code == "int":
            sign, field = 1 << (source.bits - 1), getattr(e.value, "value", None)
            text = f"({self.text(field, UNARY)} ^ {sign}) - {sign}" if _is_field(field) else (
                f"({self.type('int32')})(({wide}){text} ^ {sign}u) - {sign}")
            if dtype == "int32":
                return text, ADDITIVE
            text = f"({text})"
        if dtype.bits < 8 and not _is_field(e.value):
            text = f"(({wide}){text} & {(1 << dtype.bits) - 1}u)"
        return f"({self.type(dtype)}){text}", UNARY

    def _small_float(self, value, dtype):
        """A conversion from or to the bits of a small float, by a function of ingot_half.h."""
        self.use("half")
        source, text = value.dtype, self.converted(value)
        if source == "float64":
            source, text = "float32", f"{self.dialect.runtime}f64_to_odd({text})"
        names = {**SMALL_FLOATS, "float32": "f32"}
        if source not in names or dtype not in names or "float32" not in (source, dtype):
            raise EmitError(f"{self.dialect.name} does not convert {value.dtype} to {dtype}; run "
                            "SmallFloatComputeLegalize first")
        return f"{self.dialect.runtime}{names[source]}_to_{names[dtype]}({text})", POSTFIX

    # ------------------------------------------------------------ leaves

    def _Var(self, v):
        return self.names[v], POSTFIX

    def _IntImm(self, e):
        if self.strides and id(e) in self.strides.spelled:
            _, text, kind = self.strides.spelled[id(e)]
            return text, PRECEDENCE_OF[kind]
        return _signed(self.literal(e.dtype, e.value))

    def _FloatImm(self, e):
        text = self.literal(e.dtype, e.value)
        if text.lstrip("-") in (self.dialect.numbers["infinity"], self.dialect.numbers["nan"]):
            self.use("libm")
        return _signed(text)

    def _BufferLoad(self, e):
        return self.place(e.buffer, e.indices[0]), POSTFIX

    def place(self, buffer, index):
        """The lvalue buffer[index]; a buffer of one element is printed as a variable. A Ramp loads a vector."""
        if isinstance(index, Ramp):
            return self.vector_access("load", buffer, index)
        name = self.names[buffer]
        return name if is_scalar(buffer) else f"{name}[{self.index(index, buffer)}]"

    # ------------------------------------------------------------ functions

    def _Min(self, e):
        return self._chosen("min", e)

    def _Max(self, e):
        return self._chosen("max", e)

    def _chosen(self, name, e):
        name, e = choice(name, e)
        return self._helper(name, e.dtype, e.a, e.b)

    def packed(self, name, args):
        """The call of a packed function by its C name, a statement, with an ingot_arg for each argument."""
        if "packed" not in self.dialect.headers:
            raise EmitError(f"{self.dialect.name} cannot call the packed function {name!r}: only a CPU's programs can")
        self.use("packed")
        values = ", ".join(self._packed_argument(a) for a in args)
        return f"{packed_symbol(name)}((const ingot_arg[]){{{values}}}, {len(args)})"

    def _packed_argument(self, e):
        if isinstance(e, Call) and e.op == "tir.tvm_stack_make_array":
            address, shape, _, _, sample, _ = e.args
            first, (code, bits) = address.args[0], dlpack_type(sample.dtype)
            at_zero = all(is_const_int(i, 0) for i in first.indices)
            data = self.names[first.buffer] if at_zero else self.text(address)
            extents = [self.text(d) for d in shape.args] or ["1"]
            values = ", ".join(map(str, (data, code, bits, len(shape.args), *extents)))
            return f"ingot_arg_tensor(INGOT_DENSE({values}))"
        if isinstance(e, StringImm):
            if "\0" in e.value:
                raise EmitError(f"a packed function gets texts as C has them, without NUL, and not {e.value!r}")
            return f'ingot_arg_text("{c_string(e.value)}")'
        if e.dtype == "handle":
            raise EmitError("a packed function gets tensors, numbers and texts: pass a buffer, not its pointer")
        kind = "real" if e.dtype.is_float else "int"
        return f"ingot_arg_{kind}({self.text(e)})"

    def _FloorDiv(self, e):
        if e.dtype.is_float:
            return self._intrinsic("floor", e.dtype, Div(e.a, e.b))
        return self._helper("floordiv", e.dtype, e.a, e.b)

    def _FloorMod(self, e):
        if e.dtype.is_float:
            raise EmitError(f"{self.dialect.name} has no floor remainder of floats; use tir.fmod and correct the sign")
        return self._helper("floormod", e.dtype, e.a, e.b)

    def _helper(self, name, dtype, a, b):
        """A function of ingot_math.h of two numbers of a dtype, in the type that they are computed in."""
        wide = COMPUTED_IN.get(dtype, dtype)
        if name in UNSIGNED and dtype in ("uint32", "uint64"):
            wide = dtype
        elif wide == "uint64":  # no type holds it and its like
            a, b = self.text(a, ADDITIVE), self.text(b, ADDITIVE)
            return f"{a} {'<' if name == 'min' else '>'} {b} ? {a} : {b}", CONDITIONAL
        text = f"{self.helper(f'{name}_{SUFFIX[wide]}')}({self.converted(a)}, {self.converted(b)})"
        return (text, POSTFIX) if wide == dtype else (f"({self.type(dtype)}){text}", UNARY)

    def _Call(self, e):
        name = e.op.removeprefix("tir.")
        if name in ("load_word", "load_pair", "load_aligned_pair"):
            return f"{self.helper(name)}(&{self.text(e.args[0], UNARY)})", POSTFIX
        if name.startswith("dot_row_"):
            *rows, total = e.args
            return (f"{self.helper(name)}({', '.join(f'&{self.text(r, UNARY)}' for r in rows)}, {self.text(total)})",
                    POSTFIX)
        if name in ("call_extern", "call_pure_extern"):
            self.used.update(filter(None, [micro_kernel(e).header]))
            return f"{e.args[0].value}({', '.join(map(self.text, e.args[1:]))})", POSTFIX
        if name.endswith("call_packed"):
            raise EmitError(f"the packed function {e.args[0].value!r} is called for a value, and in C it returns none: let "
                            "it write to a buffer that it gets, or call a function of C by T.call_extern")
        if name == "address_of":
            return f"&{self.text(e.args[0], UNARY)}", UNARY
        if name == "prefetch":
            if self.dialect.prefetch is None:
                raise EmitError(f"{self.dialect.name} has no prefetch")
            return f"{self.dialect.prefetch[len(e.args) - 1]}({', '.join(map(self.text, e.args))})", POSTFIX
        if name in self.dialect.atomics:
            return f"{self.dialect.atomics[name]}({', '.join(map(self.text, e.args))})", POSTFIX
        if name == "tvm_storage_sync":
            return self._barrier(e.args[0].value), POSTFIX
        if name == "if_then_else":
            return self._conditional(*e.args)
        if name in ("likely", "ignore_loop_partition"):
            return self._print(e.args[0])
        if name == "reinterpret":
            return self._reinterpret(e, *e.args)
        if name in FLOAT_TESTS:  # they return any int
            self.use("libm")
            return f"{name}({self.text(e.args[0])}) != 0", EQUALITY
        if name in BITS or name == "bitwise_not":
            return self._bits(name, e)
        if name in COUNTS:
            return self._count(name, *e.args)
        if name == "bit_field":
            return self._bit_field(*e.args)
        if name in VECTOR_REDUCTIONS:
            self.use("vectors", e.args[0].dtype)
            return f"{self.dialect.vector(e.args[0].dtype)}_{name}({self.text(e.args[0])})", POSTFIX
        if name == "pow" and e.dtype.is_float and isinstance(e.args[1], FloatImm) and e.args[1].value == 0.5:
            return f"{self.helper(f'half_power_{SUFFIX[e.dtype]}')}({self.converted(e.args[0])})", POSTFIX
        if name == "pow" and e.dtype in ("int32", "int64"):
            return f"{self.helper(f'pow_{SUFFIX[e.dtype]}')}({', '.join(map(self.converted, e.args))})", POSTFIX
        if name == "abs" and e.dtype.is_int:
            x = e.args[0]
            return self._print(x if x.dtype.code == "uint" else Max(x, Sub(IntImm(x.dtype, 0), x)))
        return self._intrinsic(name, e.dtype, *e.args)

    def _barrier(self, scope):
        if scope not in self.dialect.barriers:
            raise EmitError(f"{self.dialect.name} has no barrier for {scope!r} memory")
        return self.dialect.barriers[scope]

    def _bits(self, name, e):
        """An operator on bits. Its operands are parenthesised, as gcc asks for; signed numbers shift left unsigned, and
        by a number that may be any through a function."""
        a, *b = (self.text(x, UNARY) for x in e.args)
        if name in SHIFTS and not (isinstance(e.args[1], IntImm) and 0 <= e.args[1].value < e.dtype.bits):
            return self._helper(name, e.dtype, *e.args)
        if name == "bitwise_not":
            text, precedence = ("!" if e.dtype.is_bool else "~") + a, UNARY
        else:
            op, precedence = BITS[name]
            wide = self.type(f"uint{max(e.dtype.bits, 32)}")
            unsigned = f"({wide})" if name == "shift_left" and e.dtype.code == "int" else ""
            text = f"{unsigned}{a} {op} {b[0]}"
            if not unsigned and e.dtype.bits >= 32 and not e.dtype.is_bool:
                return text, precedence
        if e.dtype.bits < 32 or precedence == SHIFT:
            return f"({self.type(e.dtype)})({text})", UNARY
        return text, precedence

    def _bit_field(self, word, place, bits):
        """Some bits of a byte, as an int. Where they begin is part of an index."""
        self._mark_sums(place)
        return f"({self.text(word, SHIFT)} >> {self.text(place, UNARY)}) & {(1 << bits.value) - 1}", BITAND

    def _reinterpret(self, e, x):
        """The bits of x as another type; those of small floats are integers in C."""
        if self.type(e.dtype) == self.type(x.dtype):
            return self._print(x)
        text, precedence = self._print(x)
        for dtype, function in ((x.dtype, 0), (e.dtype, 1)):
            if dtype in self.dialect.bits:
                self.use("helpers")
                argument = f"({self.type(f'uint{dtype.bits}')}){self.text(x, UNARY)}" if function else self.text(x)
                text, precedence = f"{self.dialect.bits[dtype][function]}({argument})", POSTFIX
        return (text, precedence) if e.dtype in self.dialect.bits else (f"({self.type(e.dtype)}){text}", UNARY)

    def _count(self, name, x):
        """popcount, or clz: of 64 bits, less those that x's type does not have."""
        bits = x.dtype.bits
        text = f"{self.helper(name)}(({self.type(f'uint{bits}')}){self.text(x, UNARY)})"
        if name == "popcount":
            return f"({self.type(x.dtype)}){text}", UNARY
        return (f"{text} - {64 - bits}", ADDITIVE) if bits < 64 else (text, POSTFIX)

    def _intrinsic(self, name, dtype, *args):
        """The call of an intrinsic, as the dialect spells it, or what it is in others."""
        spelling, row = self.dialect.math.get(dtype, {}).get(name), ALL_INTRINSICS.get(name)
        if not spelling and row and row.expand and dtype in ("float32", "float64"):
            return self._print(row.expand(*args))
        if not spelling:
            raise EmitError(f"no {self.dialect.name} function for {name} of {dtype}")
        own = self.dialect.runtime and spelling.startswith(self.dialect.runtime)
        self.use("helpers" if own else "libm")
        if "{}" in spelling:
            return spelling.format(self._positive(args[0], UNARY)), MULTIPLICATIVE
        return f"{spelling}({', '.join(map(self.converted, args))})", POSTFIX


def _bits(e):
    """How many bits, with that of the sign, hold any value of an integer expression."""
    if isinstance(e, IntImm):
        return 1 + (e.value if e.value >= 0 else ~e.value).bit_length()
    if isinstance(e, (Add, Sub)):
        return 1 + max(_bits(e.a), _bits(e.b))
    if isinstance(e, Mul):
        return _bits(e.a) + _bits(e.b)
    if isinstance(e, Cast) and e.value.dtype.is_int and e.dtype.code == "int":
        return min(e.dtype.bits, _bits(e.value))
    return 1 if e.dtype.is_bool else e.dtype.bits + (e.dtype.code == "uint")


def _is_field(e):
    """Whether an expression has no more bits than it asks for of a word."""
    return isinstance(e, Call) and e.op == "tir.bit_field"


def _signed(text):
    return text, UNARY if text.startswith("-") else POSTFIX


def _inner(e):
    """Strip a cast that C performs implicitly, where the other operand or the destination has the cast's type."""
    if isinstance(e, Cast) and e.dtype in ("int32", "int64") and e.dtype.lanes == 1:
        source = e.value.dtype
        if source.is_bool or source.is_int and source.bits < e.dtype.bits:
            return e.value
    return e


def _is_int64(e):
    """Whether the text of an int64 expression has that type in C, too: small literals do not."""
    if isinstance(e, IntImm):
        return not fits_int(e.value)
    if isinstance(e, Select):
        return _is_int64(e.true_value) or _is_int64(e.false_value)
    if isinstance(e, Call) and e.op == "tir.if_then_else":
        return _is_int64(e.args[1]) or _is_int64(e.args[2])
    return True


def _is_choice(e):
    """Whether `e` chooses between values of which one is neither a load nor a literal."""
    if not (isinstance(e, Select) or isinstance(e, Call) and e.op == "tir.if_then_else"):
        return False
    results = (e.true_value, e.false_value) if isinstance(e, Select) else e.args[1:]
    return not all(isinstance(r, (BufferLoad, IntImm)) for r in results)


def _holds_test(e):
    return any(c.op.removeprefix("tir.") in FLOAT_TESTS for c in collect(e, Call))


def is_scalar(buffer):
    """A local buffer of one element prints as a plain variable."""
    return buffer.scope == "local" and isinstance(buffer.shape[0], IntImm) and buffer.shape[0].value == 1
