"""Modules of a script, and whole documents of text: imports, constants, functions and classes."""
from __future__ import annotations

import ast
import re

from ..expr import Range, Var, as_expr, const
from ..module import GlobalVar, IRModule
from ..names import unique_name
from ..relax.expr import ExternFunc, ObjectStructInfo
from ..node import REGISTRY, load_json, structural_equal
from ..tir.function import PrimFunc
from ..tir.intrin import ret
from ..tir.stmt import Evaluate
from ..vdevice import DummyGlobalInfo, VDevice
from . import specs as S
from .errors import ScriptError
from .evaluator import Evaluator, describe
from .macros import Macro, macro
from .namespaces import DTypeName, Namespace
from .relax_names import Globals, R
from .relax_parser import RelaxParser
from .tir_names import T
from .tir_parser import TIRParser


def _node_class(name):
    """I.Origin(name="conv1"): any node by its class, its fields as keywords."""
    cls = REGISTRY.get(name)

    def build(*args, **fields):
        given = {**dict(zip(cls._fields, args)), **fields}
        unknown = set(given) - set(cls._fields)
        if unknown:
            raise TypeError(f"{name} has no field {', '.join(sorted(unknown))}")
        return cls(**{f: tuple(v) if isinstance(v, list) else v for f, v in given.items()})
    return build if cls else None


def _range(begin, end=None):
    """I.Range(begin, end), or I.Range(end)."""
    begin, end = (0, begin) if end is None else (begin, end)
    return Range.from_min_extent(begin, as_expr(end) - begin)


def _metadata(text):
    """The constants that mod.script(show_meta=True) wrote."""
    return {"relax.expr.Constant": list(load_json(text).fields)}


ROWS = {
    "module_attrs": lambda attrs: S.AttrsSpec("module", dict(attrs)), "GlobalVar": GlobalVar, "metadata": _metadata,
    "Range": _range, "vdevice": VDevice, "dummy_global_info": DummyGlobalInfo,
    "module_global_infos": lambda infos: S.AttrsSpec("infos", {k: tuple(v) for k, v in infos.items()}),
}
I = Namespace("I", ROWS, _node_class, {  # noqa: E741
    "pyfunc": "a module holds prim_funcs and graph functions"})
NAMESPACES = {"ir": I, "tir": T, "relax": R}
_NAMED = re.compile(r"# from tvm\.script import (ir|tir|relax) as (\w+)$")  # above what is printed


class ModuleParser(Evaluator):
    def __init__(self, source, env, trusted=False, metadata=None):
        super().__init__(source, env, trusted)
        self.metadata = metadata or {}
        self.check_well_formed = True
        self.functions = {}  # those of the class, by name
        self.global_infos = {}  # those of the class
        self.shared = {}  # name -> Var declared in the class: it belongs to all functions

    # ------------------------------------------------------------ documents

    def document(self, metadata=None):
        """The module or function that a text ends up with."""
        self.metadata = metadata or {}
        nodes = self.source.parse()
        if not any(isinstance(n, (ast.Import, ast.ImportFrom)) for n in nodes):
            named = {m[2]: NAMESPACES[m[1]] for m in map(_NAMED.match, self.source.lines) if m}
            self.env = {"I": I, "T": T, "R": R, **named, **self.env}
        modules, functions = [], {}
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                modules.append(self.class_module(node))
            elif isinstance(node, ast.FunctionDef):
                functions.update(self._function(node, alone=True))
            else:
                self._top_statement(node)
        if len(modules) + (1 if functions else 0) != 1:
            raise ScriptError("expected one @I.ir_module class, or functions under @T.prim_func or @R.function, found "
                              f"{len(modules)} classes and {len(functions)} functions", self.source.filename)
        if modules:
            return modules[0]
        return next(iter(functions.values())) if len(functions) == 1 else IRModule(functions)

    def _top_statement(self, node):
        if isinstance(node, ast.ImportFrom):
            self._import(node)
        elif isinstance(node, ast.Import):
            return
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            self._constant(node)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            self.fail(node, "expected imports, constants, @I.ir_module classes and decorated functions")

    def _import(self, node):
        """`from ingot.script import tir as T`, or from any other package's `script`."""
        if (node.module or "").rpartition(".")[2] != "script":
            return
        for a in node.names:
            if a.name not in NAMESPACES:
                self.fail(node, f"ingot.script has no name {a.name!r}; it has {', '.join(NAMESPACES)}")
            self.env[a.asname or a.name] = NAMESPACES[a.name]

    def _constant(self, node):
        name, value = node.targets[0].id, self.eval(node.value)
        if isinstance(value, S.Fresh):
            value = self.shared[name] = Var(name, value.dtype, value.most, is_size=value.is_size)
        if name == "metadata":
            self.metadata = value
        self.env[name] = value.value if isinstance(value, S.Meta) else value

    # ------------------------------------------------------------ classes and functions

    def class_module(self, node):
        """The IRModule of an ast.ClassDef."""
        if not isinstance(node, ast.ClassDef):
            self.fail(node, "expected a class below @I.ir_module")
        everything = Globals()
        self.env = {**self.env, "cls": everything, node.name: everything}
        self.added, functions, attrs, self.global_infos = {}, {}, {}, {}
        self.functions = {c.name: c for c in node.body if isinstance(c, ast.FunctionDef)}
        for child in node.body:
            if isinstance(child, ast.FunctionDef):
                made = self._function(child)
                functions.update({**self.added, **made})
                self.functions.update(made)
            elif isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name):
                name = child.targets[0].id
                self._constant(child)
                if isinstance(self.env[name], ExternFunc):
                    functions[name] = self.env[name]
            elif isinstance(child, ast.Expr):
                value = self.eval(child.value)
                if isinstance(value, S.AttrsSpec) and value.owner == "module":
                    attrs.update(value.attrs)
                elif isinstance(value, S.AttrsSpec) and value.owner == "infos":
                    self.global_infos.update(value.attrs)
                elif not isinstance(child.value, ast.Constant):
                    self.fail(child, f"expected I.module_attrs, not {describe(value)}")
            elif not isinstance(child, ast.Pass):
                self.fail(child, "a module holds functions, constants and I.module_attrs")
        return IRModule(functions, attrs, self.global_infos)

    def _add(self, func, hint):
        """The GlobalVar of a PrimFunc of the class, an equal one's where there is one, that no statement defines."""
        name = next((n for n, f in self.added.items() if structural_equal(f, func)), None)
        if name is None:
            name = unique_name(hint, {*self.functions, *self.added}, "")
            self.added[name] = func
        return GlobalVar(name)

    def _signature(self, name):
        """A function of the class, of one that comes later what stands before its body: an object, where that does not
        say what it returns."""
        found = self.functions.get(name)
        if not isinstance(found, ast.FunctionDef):
            return found
        kind = self._decorator(found)[0]
        if kind is T.prim_func:
            return PrimFunc((), {}, self._returned(found))
        if kind is not R.function:
            return None
        parser = RelaxParser(self.source, self.env, self.trusted)
        parser.shared, parser.global_infos = self.shared, self.global_infos
        func = parser.signature(found, self._decorator(found)[1].get("pure", True))
        return func if func.ret_struct_info is not None else func.replace(ret_struct_info=ObjectStructInfo())

    def _returned(self, node):
        """What stands for the body of a prim_func that comes later: a T.ret of what it is declared to return."""
        found = None if node.returns is None else self.eval(node.returns)
        return Evaluate(ret(const(0, found.dtype))) if isinstance(found, DTypeName) and found.dtype != "void" else None

    def _function(self, node, alone=False):
        """{name: function} of a decorated ast.FunctionDef; {} of a macro."""
        kind, keywords = self._decorator(node)
        if kind is macro:
            self.env[node.name] = Macro(node, self.source, self.env, keywords.get("hygienic", True))
            return {}
        is_tir = kind is T.prim_func
        cls = TIRParser if is_tir else RelaxParser
        parser = cls(self.source, self.env, self.trusted)
        parser.shared = self.shared
        parser.metadata, parser.alone = self.metadata, alone
        parser.function_of, parser.add_function = self._signature, self._add
        check = self.check_well_formed and keywords.get("check_well_formed", True)
        if not is_tir:
            parser.global_infos, parser.check_well_formed = self.global_infos, check
        last = check if is_tir else keywords.get("pure", True)
        return {node.name: parser.top(node, keywords.get("private", False), last)}

    def _decorator(self, node):
        for d in node.decorator_list:
            called = isinstance(d, ast.Call)
            found = self.eval(d.func if called else d)
            if found in (T.prim_func, R.function, macro):
                return found, {k.arg: self.eval(k.value) for k in d.keywords} if called else {}
        return self.fail(node, f"function {node.name} needs a decorator: @T.prim_func, @R.function or @T.macro")


__all__ = ["I", "ModuleParser", "NAMESPACES", "ROWS"]
