"""Expressions to C text, with no parenthesis that C's precedence does not need (or gcc's -Wparentheses ask for)."""
from __future__ import annotations

from ..ir.expr import Broadcast, Call, IntImm, Ramp
from .c_types import c_type, literal, vector_type

# Precedence, loosest first.
COMMA, CONDITIONAL, OR, AND, BITOR, BITXOR, BITAND, EQUALITY, RELATIONAL, SHIFT, ADDITIVE, MULTIPLICATIVE, UNARY, \
    POSTFIX = range(14)

# node class -> (operator, precedence). All associate to the left.
OPERATORS = {
    "Add": ("+", ADDITIVE), "Sub": ("-", ADDITIVE), "Mul": ("*", MULTIPLICATIVE), "Div": ("/", MULTIPLICATIVE),
    "Mod": ("%", MULTIPLICATIVE), "EQ": ("==", EQUALITY), "NE": ("!=", EQUALITY), "LT": ("<", RELATIONAL),
    "LE": ("<=", RELATIONAL), "GT": (">", RELATIONAL), "GE": (">=", RELATIONAL), "And": ("&&", AND), "Or": ("||", OR),
}
VECTOR_OPERATORS = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Min": "min", "Max": "max"}
SUFFIX = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64"}

# intrinsic -> C function by dtype. The ingot_ ones are static inline in ingot_math.h, the others C99's math.h.
INGOT_MATH = {"exp": "ingot_expf", "log": "ingot_logf", "tanh": "ingot_tanhf", "erf": "ingot_erff",
              "sigmoid": "ingot_sigmoidf", "sqrt": "ingot_sqrtf", "floor": "ingot_floorf", "ceil": "ingot_ceilf",
              "round": "ingot_roundf"}
LIBM = {"exp": "exp", "log": "log", "tanh": "tanh", "erf": "erf", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil",
        "round": "nearbyint", "trunc": "trunc", "abs": "fabs", "sin": "sin", "cos": "cos", "tan": "tan",
        "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh", "asinh": "asinh",
        "acosh": "acosh", "atanh": "atanh", "pow": "pow", "fmod": "fmod", "atan2": "atan2"}


class EmitError(ValueError):
    """A node that C text cannot express; the message names the pass that should have removed it."""


class CExpr:
    """Prints expressions of one function. `names` maps Vars and Buffers (by identity) to C names; `used` collects the
    headers that the text needs ("math.h", "ingot_math.h", "simd.h")."""

    def __init__(self, names, used):
        self.names, self.used = names, used

    def text(self, e, outer=COMMA):
        """The C text of e, parenthesised when it binds looser than `outer`."""
        text, precedence = self._print(e)
        return f"({text})" if precedence < outer else text

    def _print(self, e):
        kind = type(e).__name__
        if e.dtype.lanes > 1 and kind != "BufferLoad":
            return self._vector(e, kind), POSTFIX
        if kind in OPERATORS:
            return self._operator(e, *OPERATORS[kind])
        method = getattr(self, "_" + kind, None)
        if method is None:
            raise EmitError(f"C has no {kind}; run the lowering passes first")
        return method(e)

    def _operator(self, e, op, precedence):
        narrow = op in "+-*/%" and e.dtype.is_int and e.dtype.bits < 32
        left, right = self.text(e.a, precedence), self.text(e.b, precedence + 1)
        if op == "||":  # gcc asks for parentheses around && within ||
            left, right = (self.text(x, EQUALITY if type(x).__name__ == "And" else precedence) for x in (e.a, e.b))
        if op in ("==", "!=", "<", "<=", ">", ">="):  # comparisons of comparisons read badly: always parenthesised
            left, right = self.text(e.a, ADDITIVE), self.text(e.b, ADDITIVE)
        if right.startswith("-") and op in "+-":
            right = f"({right})"
        text = f"{left} {op} {right}"
        if narrow:  # C computes in int: come back to the node's own type
            return f"({c_type(e.dtype)})({text})", UNARY
        return text, precedence

    def _Var(self, v):
        return self.names[v], POSTFIX

    def _IntImm(self, e):
        text = literal(e.dtype, e.value)
        return text, (UNARY if text.startswith("-") else POSTFIX)

    def _FloatImm(self, e):
        text = literal(e.dtype, e.value)
        if text.lstrip("-") in ("INFINITY", "NAN"):
            self.used.add("math.h")
        return text, (UNARY if text.startswith("-") else POSTFIX)

    def _Not(self, e):
        return "!" + self.text(e.a, UNARY), UNARY

    def _Select(self, e):
        return self._conditional(e.condition, e.true_value, e.false_value)

    def _conditional(self, condition, yes, no):
        text = f"{self.text(condition, OR)} ? {self.text(yes, OR)} : {self.text(no, CONDITIONAL)}"
        return text, CONDITIONAL

    def _Cast(self, e):
        if e.dtype.is_bool:
            return f"{self.text(e.value, EQUALITY + 1)} != 0", EQUALITY
        return f"({c_type(e.dtype)}){self.text(e.value, UNARY)}", UNARY

    def _minmax(self, e, name):
        if e.dtype not in SUFFIX:
            a, b = self.text(e.a, ADDITIVE), self.text(e.b, ADDITIVE)
            text = f"{a} {'<' if name == 'min' else '>'} {b} ? {a} : {b}"
            return text, CONDITIONAL
        self.used.add("ingot_math.h")
        return f"ingot_{name}_{SUFFIX[e.dtype]}({self.text(e.a)}, {self.text(e.b)})", POSTFIX

    def _Min(self, e):
        return self._minmax(e, "min")

    def _Max(self, e):
        return self._minmax(e, "max")

    def _FloorDiv(self, e):
        self.used.add("ingot_math.h")
        return f"ingot_floordiv_{SUFFIX[e.dtype]}({self.text(e.a)}, {self.text(e.b)})", POSTFIX

    def _FloorMod(self, e):
        self.used.add("ingot_math.h")
        return f"ingot_floormod_{SUFFIX[e.dtype]}({self.text(e.a)}, {self.text(e.b)})", POSTFIX

    def _BufferLoad(self, e):
        return self.place(e.buffer, e.indices[0]), POSTFIX

    def place(self, buffer, index):
        """The lvalue buffer[index]; a buffer of one element is printed as a variable. A Ramp loads a vector."""
        name = self.names[buffer]
        if isinstance(index, Ramp):
            self.used.add("simd.h")
            vector = vector_type(buffer.dtype.with_lanes(index.lanes))
            address = f"&{name}[{self.text(index.base)}]"
            if isinstance(index.stride, IntImm) and index.stride.value == 1:
                return f"{vector}_load({address})"
            return f"{vector}_load_strided({address}, {self.text(index.stride)})"
        if is_scalar(buffer):
            return name
        return f"{name}[{self.text(index)}]"

    def _Call(self, e):
        name = e.op.removeprefix("tir.")
        if name == "call_extern":
            return f"{e.args[0].value}({', '.join(map(self.text, e.args[1:]))})", POSTFIX
        if name == "if_then_else":
            return self._conditional(*e.args)
        if name == "likely":
            return self._print(e.args[0])
        if name == "isnan":
            x = self.text(e.args[0], EQUALITY + 1)
            return f"{x} != {x}", EQUALITY
        if name == "isinf":
            self.used.add("math.h")
            return f"isinf({self.text(e.args[0])})", POSTFIX
        if name == "abs" and e.dtype.is_int:
            x = self.text(e.args[0], ADDITIVE)
            return f"{x} < 0 ? -{self.text(e.args[0], UNARY)} : {x}", CONDITIONAL
        return f"{self._function(name, e.dtype)}({', '.join(map(self.text, e.args))})", POSTFIX

    def _function(self, name, dtype):
        if dtype == "float32" and name in INGOT_MATH:
            self.used.add("ingot_math.h")
            return INGOT_MATH[name]
        if name in LIBM and dtype in ("float32", "float64"):
            self.used.add("math.h")
            return LIBM[name] + ("f" if dtype == "float32" else "")
        raise EmitError(f"no C function for {name} of {dtype}")

    # ------------------------------------------------------------ vectors

    def _vector(self, e, kind):
        self.used.add("simd.h")
        prefix = vector_type(e.dtype)
        if isinstance(e, Broadcast):
            return f"{prefix}_set1({self.text(e.value)})"
        if kind in VECTOR_OPERATORS:
            return f"{prefix}_{VECTOR_OPERATORS[kind]}({self.text(e.a)}, {self.text(e.b)})"
        if isinstance(e, Call):
            return f"{prefix}_{e.op.removeprefix('tir.')}({', '.join(map(self.text, e.args))})"
        raise EmitError(f"no vector form of {kind}; vectorize_loop should have kept the loop scalar")


def is_scalar(buffer):
    """A local buffer of one element prints as a plain variable."""
    return buffer.scope == "local" and isinstance(buffer.shape[0], IntImm) and buffer.shape[0].value == 1
