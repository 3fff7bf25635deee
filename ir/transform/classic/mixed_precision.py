"""ToMixedPrecision of scripts: products of float16 operands in a float32 program, with what follows them."""
from __future__ import annotations

import numpy as np

from ...dtype import DataType
from ...names import Names, unique_name
from ...node import collect
from ...relax.expr import (Constant, DataflowBlock, DataflowVar, RelaxCall, RelaxExpr, RelaxTuple, RelaxVar,
                           TensorStructInfo, TupleGetItem, TupleStructInfo, VarBinding)
from ...relax.op import call as operator
from ..call_rules import inferred
from ..graph import ReplaceVars
from ..precision_rows import ALWAYS, FOLLOW, NEVER, SCRIPTS

HALF, WIDE = DataType("float16"), DataType("float32")
_VARS = (RelaxVar, DataflowVar)


def mixed_precision(func, out_dtype="float32", fp16_input_names=None):
    """A graph function whose products in dataflow blocks (rows ALWAYS of SCRIPTS) take float16. They give out_dtype,
    "float32" or "float16", and a tensor is stored as float16 where products alone use it. Operators that follow are
    float16 where all operands are, or constants in its range. What leaves a block has its dtype of before.

    fp16_input_names: parameters that are float16 from now on, such as weights. ValueError for another out_dtype, and
    for a name that no parameter of the function has.
    """
    dtype = DataType(out_dtype)
    if dtype not in (HALF, WIDE):
        raise ValueError(f"ToMixedPrecision: out_dtype is float16 or float32, not {out_dtype}")
    names = list(fp16_input_names or ())
    unknown = set(names) - {p.name for p in func.params}
    if unknown:
        raise ValueError(f"ToMixedPrecision: no parameter is called {', '.join(sorted(unknown))}; there are "
                         f"{', '.join(p.name for p in func.params)}")
    rewritten = _Mixed(func, dtype).function(names)
    return func if rewritten.body is func.body and not names else rewritten


# ---------------------------------------------------------------- what is wanted of values
# As trees: a DataType for a tensor, a tuple for the fields of a tuple, None for what is wanted by nobody.

def _tree(info, dtype):
    if isinstance(info, TupleStructInfo):
        return tuple(_tree(f, dtype) for f in info.fields)
    return dtype if isinstance(info, TensorStructInfo) else None


def _merged(a, b):
    """float32 where one of two wants it."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return tuple(map(_merged, a, b))
    return a if b is None or a == WIDE else b


def _wanted(func):
    """{id(variable): what its uses in dataflow blocks, and the function's result, want of it}"""
    found = {}

    def ask(value, tree):
        if isinstance(value, _VARS):
            found[id(value)] = _merged(found.get(id(value)), tree)
        elif isinstance(value, RelaxTuple):
            trees = tree if isinstance(tree, tuple) else [tree] * len(value.fields)
            for field, own in zip(value.fields, trees):
                ask(field, own)

    def ask_all(values, dtype):
        for v in values:
            ask(v, _tree(v.struct_info, dtype))

    ask_all(collect(func.body.body, _VARS), WIDE)
    for block in reversed(func.body.blocks):
        for b in reversed(block.bindings if isinstance(block, DataflowBlock) else ()):
            value = b.value
            if isinstance(value, RelaxCall):
                ask_all(value.args, HALF if _policy(value) == ALWAYS else WIDE)
            elif isinstance(value, RelaxTuple):
                ask(value, found.get(id(b.var)))
            elif isinstance(value, TupleGetItem):
                fields = value.tuple_value.struct_info.fields
                ask(value.tuple_value, tuple(found.get(id(b.var)) if n == value.index else _tree(f, None)
                                             for n, f in enumerate(fields)))
            else:
                ask_all(collect(value, _VARS), WIDE)
    return found


def _policy(call):
    return SCRIPTS.get(call.op, NEVER) if isinstance(call.op, str) else NEVER


# ---------------------------------------------------------------- the program

class _Mixed(ReplaceVars):
    """env: {id(variable of the program): what holds its value, perhaps in another dtype}"""

    def __init__(self, func, out_dtype):
        super().__init__()
        self.func, self.out_dtype, self.bindings, self.wanted = func, out_dtype, None, _wanted(func)
        self.names = Names(v.name for v in collect(func, _VARS))

    def function(self, names):
        params = tuple(self._param(p) if p.name in names else p for p in self.func.params)
        self.params = {id(old): new for old, new in zip(self.func.params, params)}
        self.env.update(self.params)
        body = self.visit(self.func.body)
        return self.func.replace(params=params, body=body, ret_struct_info=body.struct_info)

    @staticmethod
    def _param(p):
        info = p.struct_info
        if not isinstance(info, TensorStructInfo) or info.dtype not in (HALF, WIDE):
            raise ValueError(f"ToMixedPrecision: parameter {p.name} is {info}; only tensors of float32 can be float16")
        return p.replace(struct_info=info.replace(dtype=HALF))

    def visit_DataflowBlock(self, block):
        self.bindings = []
        for p in self.func.params:
            self._halve(p)
        for b in block.bindings:
            value = self._value(b)
            if not isinstance(b.var, DataflowVar):  # it leaves the block
                value = self._cast(value, _tree(b.var.struct_info, None), like=b.var.struct_info)
            self._bind(b, value)
            self._halve(b.var)
        self.env.update(self.params)  # casts of parameters belong to the block
        same = len(self.bindings) == len(block.bindings) and all(a is b for a, b in zip(self.bindings, block.bindings))
        return block if same else block.replace(bindings=tuple(self.bindings))

    def _value(self, b):
        value = b.value
        if isinstance(value, RelaxCall) and value.op == "wrap_param":
            return self.visit(value.args[0])
        if isinstance(value, RelaxCall):
            return self._call(value, isinstance(b.var, DataflowVar))
        if isinstance(value, (RelaxTuple, TupleGetItem)):
            return self.visit(value)
        return self._as_before(value)

    def _call(self, call, stays):
        policy, args = _policy(call), tuple(map(self.visit, call.args))
        if policy == NEVER:
            args = tuple(map(self._as_before, call.args))
            return call if all(a is b for a, b in zip(args, call.args)) else call.replace(args=args)
        dtype = HALF if policy == ALWAYS or all(map(_is_half, args)) else WIDE
        attrs = {**call.attrs, "out_dtype": str(self.out_dtype)} if policy == ALWAYS and "out_dtype" in call.attrs else (
            call.attrs)
        args = tuple(self._cast(a, dtype) for a in args)
        if attrs is call.attrs and all(a is b for a, b in zip(args, call.args)):
            return call
        made = inferred(call.replace(args=args, attrs=attrs))
        return self._cast(made, HALF) if policy == ALWAYS and stays else made

    def _as_before(self, value):
        """A value with the variables in it in the dtypes that they had."""
        if isinstance(value, (RelaxVar, DataflowVar)):
            return self._cast(self.visit(value), None, like=value.struct_info)
        if isinstance(value, RelaxTuple):
            fields = tuple(map(self._as_before, value.fields))
            return value if all(a is b for a, b in zip(fields, value.fields)) else value.replace(fields=fields)
        inside = [v for v in collect(value, _VARS) if self.env.get(id(v), v) is not v]
        return ReplaceVars({**self.env, **{id(v): self._as_before(v) for v in inside}}).visit(value) if inside else value

    # ------------------------------------------------------------ casts

    def _cast(self, value, dtype, like=None):
        """A value whose tensors of 16 and 32 bits have a dtype, one or those of a tree or of a struct info `like`; what
        has it already stays."""
        info = value.struct_info
        if isinstance(info, TupleStructInfo):
            fields = [self._field(value, n) for n in range(len(info.fields))]
            trees = dtype if isinstance(dtype, tuple) else [dtype] * len(fields)
            if not any(_differs(f, d, like and like.fields[n]) for n, (f, d) in enumerate(zip(info.fields, trees))):
                return value
            held = value if isinstance(value, (*_VARS, RelaxTuple)) else self._emit(value)
            return RelaxTuple(tuple(self._cast(self._field(held, n), d, like and like.fields[n])
                                    for n, d in enumerate(trees)))
        wanted = like.dtype if isinstance(like, TensorStructInfo) else dtype
        return operator("astype", self._held(value), dtype=str(wanted)) if _differs(info, dtype, like) else value

    def _field(self, value, n):
        return value.fields[n] if isinstance(value, RelaxTuple) else TupleGetItem(value, n)

    def _held(self, value):
        """A value as an argument."""
        return self._emit(value) if isinstance(value, (RelaxCall, TupleGetItem)) else value

    def _emit(self, value):
        if isinstance(value, RelaxCall):
            value = value.replace(args=tuple(map(self._held, value.args)))
        var = DataflowVar(unique_name("lv", self.names, ""), value.struct_info)
        self.bindings.append(VarBinding(var, value))
        return var

    def _halve(self, var):
        """A variable as float16 where products alone use it."""
        held, wanted = self.env.get(id(var), var), self.wanted.get(id(var))
        made = self._cast(held, _only_half(wanted))
        if made is not held:
            self.env[id(var)] = self._emit(self._flat(made))

    def _flat(self, value):
        """A value whose parts are bound."""
        name = {RelaxTuple: "fields", RelaxCall: "args"}.get(type(value))
        if name is None:
            return value
        before = getattr(value, name)
        parts = tuple(self._held(self._flat(part)) for part in before)
        return value if all(a is b for a, b in zip(parts, before)) else value.replace(**{name: parts})

    def _bind(self, b, value):
        value = self._flat(value)
        if value is b.value:
            self.bindings.append(b)
            return
        var, info = b.var, value.struct_info
        if isinstance(b, VarBinding) and info is not None and info != var.struct_info:
            var = self.env[id(b.var)] = var.replace(struct_info=info)
        self.bindings.append(b.replace(var=var, value=value))


def _differs(info, dtype, like):
    """Whether a value of `info` needs a cast to `dtype`, or to that of `like`."""
    if isinstance(info, TupleStructInfo):
        trees = dtype if isinstance(dtype, tuple) else [dtype] * len(info.fields)
        return any(_differs(f, d, like and like.fields[n]) for n, (f, d) in enumerate(zip(info.fields, trees)))
    if not isinstance(info, TensorStructInfo) or info.dtype not in (HALF, WIDE):
        return False
    wanted = like.dtype if isinstance(like, TensorStructInfo) else dtype
    return wanted is not None and info.dtype != wanted


def _only_half(tree):
    return tuple(map(_only_half, tree)) if isinstance(tree, tuple) else HALF if tree == HALF else None


def _is_half(value):
    """Whether an operator that follows takes a value as float16."""
    info = value.struct_info
    if isinstance(value, RelaxTuple):
        return all(map(_is_half, value.fields))
    if not isinstance(info, (TensorStructInfo, TupleStructInfo)) or not isinstance(value, RelaxExpr):
        return True  # a shape, a number
    if isinstance(value, Constant):
        return bool(np.abs(np.asarray(value.data).astype("float64")).max(initial=0) <= HALF.finite_range()[1])
    return isinstance(info, TensorStructInfo) and info.dtype == HALF


__all__ = ["mixed_precision"]
