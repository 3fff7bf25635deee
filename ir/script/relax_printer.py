"""Graph functions and modules as Python-syntax script (TVM Relax's spelling).

In a signature symbolic dimensions are quoted ("batch"); the body declares each with `batch = T.int64()`, or the class
those that functions share. R.output lists the variables of a dataflow block that are visible outside it. Constants of
one element without dimensions print as R.const; the others as metadata["relax.expr.Constant"][i].
"""
from __future__ import annotations

from ..expr import IntImm, Var
from ..module import GlobalVar, linkage
from ..node import collect, structural_equal
from ..op import OPS, InferError, takes_tuple
from ..relax.expr import (PACKED, DataflowBlock, DataflowVar, Function, If, MatchCast, RelaxCall, RelaxString, RelaxVar,
                          SeqExpr, TupleStructInfo, VarBinding)
from ..tir.function import PrimFunc
from .expr_printer import ATOM, quote, sequence
from .names import identifier
from .tir_printer import TIRPrinter

OMITTED = "\n# Metadata omitted. Use show_meta=True in script() method to show it."  # below a text without its constants
RELAX_HEADER = "# from tvm.script import relax as R"  # above a function in a function


class RelaxPrinter(TIRPrinter):
    """Prints graph functions; integers in shapes are int64 and print bare."""

    def __init__(self):
        super().__init__()
        self.default_int = "int64"
        self._named = set()  # ids of variables of nothing that something uses
        self._void = set()  # ids of variables of nothing, which statements without a name give
        self._constants = {}  # id -> (index, Constant)
        self.devices = []  # those of the module, which struct info speaks of by number
        self.declares = False  # whether a piece declares what it uses and does not define
        self._quoting = False  # inside a signature: symbolic dimensions are quoted
        self._module_name = None  # of the module that is printed
        self._late = None  # lines at the top of the function that is printed, which its text turns out to need
        self._level = 0  # the scope of that function
        self._aliased = False  # whether it has a name for the module

    # ------------------------------------------------------------ modules and functions

    def module(self, mod):
        """The text of an IRModule."""
        with self.marked(mod):
            self._module(mod)
        return self._complete()

    def _complete(self):
        """The lines as text, which ends without a blank line."""
        return "\n".join(self.lines).rstrip() + (OMITTED if self._constants else "")

    def _module(self, mod):
        self._module_name = self.style.module
        self.names.reserve(self.style.module)
        self.line("@I.ir_module")
        with self.suite(f"class {self.style.module}:"):
            shared = _shared_dims(mod)
            for v in shared:
                self.names.define(v, v.name)
            self._declare(shared)
            if mod.attrs:
                self.line(f"I.module_attrs({self.value(mod.attrs)})")
            if mod.global_infos:
                self.devices = list(mod.global_infos.get("vdevice", ()))
                infos = {k: list(v) for k, v in mod.global_infos.items()}
                self.line(f"I.module_global_infos({self.value(infos)})")
            for name, func in sorted(mod.functions.items(), key=_place):
                self._module_function(name, func)

    def _module_function(self, name, func):
        if isinstance(func, PrimFunc):
            printer = TIRPrinter(self.names)
            printer.style, printer.module_name = self.style, self._module_name
            for text in printer.function(func, name).split("\n"):
                self.line(text)
        elif isinstance(func, Function):
            self._function(func, name)
        else:
            self.line(f"{identifier(name)} = {self.value(func)}")
            return
        self.lines.append("")

    def function_text(self, func):
        """The text of one graph function."""
        for gv in collect(func, GlobalVar):
            self.names.reserve(gv.name)
        self._function(func, (func.attrs or {}).get("global_symbol", "main"))
        return self._complete()

    def node_text(self, n):
        """The text of anything else of the graph IR, alone: an expression, a binding, a block, struct info."""
        statement = {"BindingBlock": self._binding_block, "DataflowBlock": self._binding_block, "SeqExpr": self._seq_alone,
                     "VarBinding": self._binding, "MatchCast": self._binding, "If": self._if_alone}.get(type(n).__name__)
        if statement is None:
            text = self.expr(n)
            return "\n".join([*self.lines, text])
        statement(n)
        return "\n".join(self.lines)

    def _function(self, func, name, nested=False):
        private, attrs = linkage(func, name)
        self._named |= _named_voids(func)
        with self.marked(func), self.names.scope():
            for p in func.params:
                self.names.define(p, p.name)
            said = collect([func.ret_struct_info, [p.struct_info for p in func.params]], Var)
            dims = [v for v in _with_bounds(said) if not self.names.known(v)]
            for v in dims:
                self.names.define(v, v.name)
            self._quoting = True
            params = ", ".join(f"{self.expr(p)}: {self.expr(p.struct_info)}" for p in func.params)
            returns = f" -> {self.expr(func.ret_struct_info)}" if func.ret_struct_info is not None else ""
            self._quoting = False
            says = (["pure=False"] if not func.is_pure else []) + (["private=True"] if private and not nested else [])
            if nested:
                self.line(RELAX_HEADER)
                self.lines.append("")
            self.line(f"@R.function({', '.join(says)})" if says else "@R.function")
            with self.suite(f"def {identifier(name)}({params}){returns}:"):
                self._declare(dims)
                self._function_lines(func, attrs)
            if nested:
                self.lines.append("")

    def _function_lines(self, func, attrs):
        """The attributes, then the body, each below the declarations that it turns out to need; those of a function in a
        function stand at the top of the outer one."""
        outer, kept = self._late is None, (self._late, self._level)
        if outer:
            self._level, self._aliased = self.names.level, False
        for write in ((lambda: attrs and self.line(f"R.func_attr({self.value(attrs)})")), lambda: self._seq(func.body)):
            start = len(self.lines)
            if outer:
                self._late = []
            write()
            if outer:
                self.lines[start:start] = ["    " * self._indent + text for text in self._late]
        self._late, self._level = kept

    def expr_Var(self, v):
        """A dimension; one that is new is declared at the top of its function."""
        if self._late is not None and not self.names.known(v):
            for w in _with_bounds([v]):
                if not self.names.known(w):
                    name = self.names.define(w, w.name, self._level)
                    self._late.append(f"{name} = {self._dim_type(w)}")
        elif self.declares and not self.names.known(v) and v.dtype != "handle":
            self.line(f"{self.names.define(v, v.name)} = {self._dim_type(v)}")
        return super().expr_Var(v)

    def _dim_type(self, v):
        return f"T.{v.dtype}({'' if v.most is None else f'most={self.expr(v.most)}'})"

    def _declare(self, dims):
        """A line for each variable; those that bounds speak of come first."""
        for v in dims:
            self.line(f"{self.expr(v)} = {self._dim_type(v)}")

    def _seq(self, body):
        for block in body.blocks:
            self._binding_block(block)
        self.line(f"return {self.expr(body.body)}")

    def _binding_block(self, block):
        with self.marked(block):
            self._bindings(block)

    def _bindings(self, block):
        """The bindings of one block. Their names live on: later blocks and the result use them."""
        if not isinstance(block, DataflowBlock):
            for b in block.bindings:
                self._binding(b)
            return
        if self.declares:
            defined = {id(b.var) for b in block.bindings}
            for v in collect(block, (RelaxVar, DataflowVar)):
                if id(v) not in defined:
                    self.expr(v)
        self.line("with R.dataflow():")
        self._indent += 1
        for b in block.bindings:
            self._binding(b, isinstance(b.var, RelaxVar))
        outputs = [self.expr(b.var) for b in block.bindings if isinstance(b.var, RelaxVar)]
        self.line(f"R.output({', '.join(outputs)})")
        self._indent -= 1

    def _binding(self, b, listed=False):
        with self.marked(b):
            self._one(b, listed)

    def _one(self, b, listed):
        """listed: whether R.output names the variable."""
        if isinstance(b.value, If) and not isinstance(b, MatchCast):
            self._if(b)
            return
        if isinstance(b.value, Function) and not isinstance(b, MatchCast):
            self._function(b.value, self.names.define(b.var, b.var.name), nested=True)
            return
        value = self.expr(b.value)
        if isinstance(b.value, RelaxCall) and not listed and id(b.var) not in self._named and (
                _is_void(b.value) and _is_void(b.var)):
            self.line(value)
            self._void.add(id(b.var))
            return
        info = self.expr(b.var.struct_info) if b.var.struct_info is not None else ""
        if isinstance(b, MatchCast):
            value = f"R.match_cast({value}, {info})"
            info = info if self.style.infos else ""
        elif self._is_inferred(b.var, b.value):
            info = ""
        name = self.names.define(b.var, b.var.name)
        self.line(f"{name}: {info} = {value}" if info else f"{name} = {value}")

    def _is_inferred(self, var, value):
        """Whether the annotation of a variable repeats what its value says, and is left out."""
        told = isinstance(value, RelaxCall) and value.op in ("call_tir", "call_dps_packed")
        if not told and self.style.infos or var.struct_info is None:
            return False
        inferred = getattr(value, "struct_info", None)
        if isinstance(value, RelaxCall) and value.op in OPS:
            try:
                inferred = OPS[value.op].infer(value)
            except InferError:
                return False
        return inferred is not None and structural_equal(inferred, var.struct_info)

    def _if(self, b):
        """Both branches end with an assignment to the variable."""
        info = b.var.struct_info
        annotation = f": {self.expr(info)}" if info is not None else ""
        condition = self.expr(b.value.cond)
        name = self.names.define(b.var, b.var.name)
        for head, branch in ((f"if {condition}:", b.value.true_branch), ("else:", b.value.false_branch)):
            with self.suite(head):
                for block in branch.blocks:
                    self._binding_block(block)
                if not (id(branch.body) in self._void and _is_void(b.var)):
                    self.line(f"{name}{annotation} = {self.expr(branch.body)}")

    def _seq_alone(self, seq):
        for block in seq.blocks:
            self._binding_block(block)
        self.line(self.expr(seq.body))

    def _if_alone(self, e):
        """An `if` that no variable takes the value of."""
        for head, branch in ((f"if {self.expr(e.cond)}:", e.true_branch), ("else:", e.false_branch)):
            with self.suite(head):
                self._seq_alone(branch)

    def constants(self):
        """The constants that the text names by number, in that order."""
        return [c for _, c in self._constants.values()]

    # ------------------------------------------------------------ expressions

    def expr_RelaxVar(self, v):
        if self.declares and not self.names.known(v):
            info = None if v.struct_info is None else self.expr(v.struct_info)
            name = self.names.define(v, v.name)
            if info is not None:
                self.line(f"{name}: {info}")
        return self.names.get(v, v.name), ATOM

    expr_DataflowVar = expr_RelaxVar

    def expr_GlobalVar(self, gv):
        if self._module_name is None:
            return identifier(gv.name), ATOM
        if not self.style.alias:
            return f"{self._module_name}.{identifier(gv.name)}", ATOM
        if self._late is not None and not self._aliased:
            self._late.append(f"{self.style.alias} = {self._module_name}")
            self._aliased = True
        return f"{self.style.alias}.{identifier(gv.name)}", ATOM

    def expr_Constant(self, c):
        if c.data.ndim == 0:
            return f"R.const({self.value(c.data.item())}, {quote(c.data.dtype.name)})", ATOM
        index, _ = self._constants.setdefault(id(c), (len(self._constants), c))
        return f'metadata["relax.expr.Constant"][{index}]', ATOM

    def expr_ExternFunc(self, f):
        return f"R.ExternFunc({quote(f.global_symbol)})", ATOM

    def expr_VDevice(self, d):
        return f"I.vdevice({quote(d.target)}, {d.vdevice_id}, {quote(d.memory_scope)})", ATOM

    def expr_DummyGlobalInfo(self, d):
        return "I.dummy_global_info()", ATOM

    def expr_ShapeExpr(self, s):
        return f"R.shape({self._dims(s.values, '[]')})", ATOM

    def expr_PrimValue(self, p):
        return f"R.prim_value({self.expr(p.value)})", ATOM

    def expr_RelaxString(self, s):
        return f"R.str({quote(s.value)})", ATOM

    def expr_DataTypeImm(self, d):
        return f"R.dtype({quote(d.value)})", ATOM

    def expr_RelaxTuple(self, t):
        return sequence(self.exprs(t.fields)) if t.fields else "R.tuple()", ATOM

    def expr_TupleGetItem(self, t):
        return f"{self.expr(t.tuple_value, ATOM)}[{t.index}]", ATOM

    def expr_RelaxCall(self, c):
        attrs = dict(c.attrs or {})
        if c.op in ("call_tir", "call_tir_inplace", "call_tir_with_grad"):
            return self._call_tir(c, attrs), ATOM
        if c.op in PACKED and "func" in attrs:
            return self._call_packed(c, attrs), ATOM
        if c.op == "call" and isinstance(attrs.get("gv"), GlobalVar):
            return f"{self.expr(attrs['gv'])}({', '.join(self.exprs(c.args))})", ATOM
        if not isinstance(c.op, str):
            return f"{self.expr(c.op, ATOM)}({', '.join(self.exprs(c.args))})", ATOM
        args, spec = self.exprs(c.args), OPS.get(c.op)
        args = [sequence(args)] if takes_tuple(c.op) else args
        if "operands" in attrs:  # others of the operator's are left out
            args = [f"{name}={a}" for name, a in zip(attrs.pop("operands"), args)]
        if c.op == "topk" and spec is not None and set(attrs) == set(spec.attrs):
            attrs["dtype"] = "int64"  # R.topk has int32 where nothing is said
        if hasattr(attrs.get("dst_vdevice"), "device_type"):
            device = attrs.pop("dst_vdevice")
            args.append(f"R.device(dev_type={device.device_type}, dev_id={device.index})")
        attrs = self._message(attrs) if c.op in ("print", "assert_op") else attrs
        alone = c.op == "nn.batch_norm" and not isinstance(c.struct_info, TupleStructInfo)
        item = "[0]" if alone else ""  # R.nn.batch_norm is a tuple; see relax.op
        return f"R.{c.op}({', '.join(args + self._keywords(attrs))}){item}", ATOM

    def _call_tir(self, c, attrs):
        gv, dims = attrs.pop("gv", None), attrs.pop("sym_args", ())
        several = isinstance(c.struct_info, TupleStructInfo)
        out = sequence(self.exprs(c.struct_info.fields), "[]") if several else self.expr(c.struct_info)
        args = [self.expr(gv), sequence(self.exprs(c.args)), f"out_sinfo={out}"]
        if "inplace_indices" in attrs:
            args += self._keywords({"inplace_indices": attrs.pop("inplace_indices")})
        if dims:
            args.append(f"tir_vars=R.shape({self._dims(dims, '[]')})")
        return f"R.{c.op}({', '.join(args + self._keywords(attrs))})"

    def _call_packed(self, c, attrs):
        name, args = self.value(attrs.pop("func")), self.exprs(c.args)
        if c.op == "call_builtin_with_ctx":
            args = [sequence(args)]
        if c.op != "call_dps_packed":
            info = [] if c.struct_info is None else [f"sinfo_args=({self.expr(c.struct_info)},)"]
            return f"R.{c.op}({', '.join([name, *args, *info, *self._keywords(attrs)])})"
        info = f"out_sinfo={self.expr(c.struct_info)}"
        return f"R.call_dps_packed({', '.join([name, sequence(args), info, *self._keywords(attrs)])})"

    def _keywords(self, attrs):
        return [f"{k}={self.value(list(v) if isinstance(v, tuple) else v)}" for k, v in attrs.items()]

    def _message(self, attrs):
        """The format of R.print and R.assert_op is a value of the graph in TVM."""
        return {k: RelaxString(v) if k == "format" and isinstance(v, str) else v for k, v in attrs.items()}

    # ------------------------------------------------------------ struct info

    def expr_TensorStructInfo(self, s):
        args = [] if s.shape is None else [self._dims(s.shape) if isinstance(s.shape, tuple) else self.expr(s.shape)]
        if s.dtype != "void":
            args.append(f"dtype={quote(s.dtype)}")
        if s.shape is None and s.ndim >= 0:
            args.append(f"ndim={s.ndim}")
        if s.vdevice is not None:
            args.append(f"vdevice={quote(self._device(s.vdevice))}")
        return f"R.Tensor({', '.join(args)})" if args else "R.Tensor", ATOM

    def _device(self, device):
        """How struct info names a device: by its number among the module's of this kind."""
        for n, d in enumerate([d for d in self.devices if d.kind == device.kind]):
            if structural_equal(d, device):
                return f"{d.kind}:{n}"
        return f"{device.target}:{device.vdevice_id}:{device.memory_scope}"

    def expr_ShapeStructInfo(self, s):
        if s.values is not None:
            return f"R.Shape({self._dims(s.values, '[]')})", ATOM
        return f"R.Shape(ndim={s.ndim})", ATOM

    def expr_PrimStructInfo(self, s):
        return f"R.Prim({quote(s.dtype) if s.value is None else 'value=' + self._dim_text(s.value)})", ATOM

    def expr_FuncStructInfo(self, s):
        if s.params is not None:
            return f"R.Callable({sequence(self.exprs(s.params))}, {self.expr(s.ret)}, {s.purity})", ATOM
        ret = [] if type(s.ret).__name__ == "ObjectStructInfo" else [f"ret={self.expr(s.ret)}"]
        args = ret + (["purity=True"] if s.purity else [])
        return f"R.Callable({', '.join(args)})" if args else "R.Callable", ATOM

    def expr_TupleStructInfo(self, s):
        return f"R.Tuple({', '.join(self.exprs(s.fields))})" if s.fields else "R.Tuple", ATOM

    def expr_ObjectStructInfo(self, s):
        return "R.Object", ATOM

    def _dims(self, dims, brackets="()"):
        return sequence([self._dim_text(d) for d in dims], brackets)

    def _dim_text(self, dim):
        return quote(self.expr(dim)) if self._quoting and not isinstance(dim, IntImm) else self.expr(dim)


def _place(item):
    """Where a function of a module is printed, a pair of its name and itself: TVM's order."""
    name, func = item
    kind = 0 if isinstance(func, PrimFunc) else 2 if isinstance(func, Function) else 1
    return (3 if name == "main" else kind, name)


def _is_void(value):
    """Whether there is nothing in a value."""
    return isinstance(value.struct_info, TupleStructInfo) and not value.struct_info.fields


def _named_voids(func):
    """The ids of variables of nothing that something uses, other than the branch that they end."""
    voids = {id(b.var) for b in collect(func, VarBinding) if _is_void(b.var)}
    if not voids:
        return voids
    branches = {id(s) for e in collect(func, If) for s in (e.true_branch, e.false_branch)}
    values = [b.value for b in collect(func, (VarBinding, MatchCast)) if not isinstance(b.value, (If, Function))]
    values += [s.body for s in collect(func, SeqExpr) if id(s) not in branches]
    return voids & {id(v) for v in collect(values, (RelaxVar, DataflowVar))}


def _with_bounds(dims):
    """Variables, and before each those of its bound."""
    found = {}
    for v in dims:
        if v.most is not None:
            found |= {id(w): w for w in _with_bounds(collect(v.most, Var))}
        found.setdefault(id(v), v)
    return list(found.values())


def _shared_dims(mod):
    """The dimensions that more than one function, or the module's attributes, speak of."""
    count, found = {}, {}
    functions = (f for _, f in sorted(mod.functions.items(), key=_place))
    for part, weight in ((mod.attrs, 2), *((_interface(f), 1) for f in functions)):
        for v in _with_bounds(collect(part, Var)):
            if v.dtype != "handle":
                found[id(v)] = v
                count[id(v)] = count.get(id(v), 0) + weight
    return [v for key, v in found.items() if count[key] > 1]


def _interface(func):
    """Where a function's own dimensions are: of a PrimFunc not its body, whose variables are loops and the like."""
    if not isinstance(func, PrimFunc):
        return func
    return func.params, [(b.shape, b.strides, b.elem_offset) for b in func.buffer_map.values()]
