"""Struct info of a graph function's script: R.Tensor((1, "n"), "float32") and its like, read where they stand."""
from __future__ import annotations

import ast

from ..expr import Var
from ..relax import expr as X
from ..vdevice import VDevice
from .evaluator import Evaluator, describe
from .relax_names import InfoSpec

VARS = (X.RelaxVar, X.DataflowVar)


class InfoParser(Evaluator):
    """Expressions of a script, and the struct info among them. global_infos: the module's."""

    global_infos = {}

    def info(self, spec, node):
        """The struct info of an annotation."""
        if isinstance(spec, X.StructInfo):
            return spec
        if not isinstance(spec, InfoSpec):
            self.fail(node, f"expected struct info such as R.Tensor((1, 8), \"float32\"), not {describe(spec)}")
        try:
            return getattr(self, "info_" + spec.name)(node, *spec.args, **(spec.kwargs or {}))
        except (TypeError, ValueError) as error:
            if hasattr(error, "filename"):
                raise
            return self.fail(node, f"R.{spec.name}: {error}")

    def info_Tensor(self, node, shape=None, dtype="void", vdevice=None, ndim=-1):
        if isinstance(shape, str):
            shape, dtype = None, shape
        if not isinstance(ndim, int) or ndim < -1:
            self.fail(node, f"R.Tensor: ndim is a number of dimensions, or -1 where it is not known, not {ndim!r}")
        vdevice = self.device(vdevice, node) if isinstance(vdevice, str) else vdevice
        shape = shape if shape is None or isinstance(shape, VARS) else self.dims(shape, node)
        return X.TensorStructInfo(shape, dtype, ndim, vdevice)

    def device(self, text, node):
        """The VDevice that "cuda:1:global" means: of the module's that have this kind the second, where it has some;
        "vdevice:1": the second of all."""
        kind, number, scope = (text.split(":") + ["0", "global"][text.count(":"):])[:3]
        listed = [d for d in self.global_infos.get("vdevice", ()) if kind in ("vdevice", d.kind)]
        if not listed:
            return VDevice(kind, int(number), scope)
        if int(number) >= len(listed):
            self.fail(node, f"vdevice={text!r}: the module has {len(listed)} of these")
        return listed[int(number)]

    def info_Shape(self, node, values=None, ndim=-1):
        values = None if values is None else self.dims(values, node)
        return X.ShapeStructInfo(values, ndim if values is None else len(values))

    def info_Prim(self, node, dtype=None, value=None):
        return X.PrimStructInfo(dtype) if value is None else X.PrimStructInfo(value=self.dims((value,), node)[0])

    def info_Callable(self, node, params=None, ret=None, purity=None, derive_func=None):
        ret = None if ret is None else self.info(ret, node)
        if params is None:
            return X.FuncStructInfo.opaque_func(ret=ret, purity=bool(purity), derive_func=derive_func)
        params = params if isinstance(params, (list, tuple)) else (params,)
        return X.FuncStructInfo(tuple(self.info(p, node) for p in params), ret, purity is not False)

    def info_Tuple(self, node, *fields):
        fields = fields[0] if len(fields) == 1 and isinstance(fields[0], (list, tuple)) else fields
        return X.TupleStructInfo(tuple(self.info(f, node) for f in fields))

    def info_Object(self, node):
        return X.ObjectStructInfo()

    def dims(self, shape, node):
        """Dimensions as int64 expressions; a quoted one may name variables that are new."""
        shape = getattr(shape, "values", shape)
        dims = tuple(self._quoted(d, node) if isinstance(d, str) else self.as_scalar(d, node) for d in shape)
        for d in dims:
            if isinstance(d, Var) and d.dtype != "int64":
                self.fail(node, f"the value in ShapeStructInfo can only have dtype of int64, {d.name} is {d.dtype}")
        return dims

    def _quoted(self, text, node):
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            self.fail(node, f"{text!r} is no expression of dimensions")
        for n in ast.walk(tree):
            ast.copy_location(n, node)
            if isinstance(n, ast.Name) and not self._is_known(n.id):
                self.define(n.id, self._dim(n.id, "int64"))
        return self.scalar(tree)

    def _is_known(self, name):
        return any(name in s for s in self.scopes) or name in self.shared or name in ("T", "R", "I")

    def _dim(self, name, dtype):
        """The variable `name`: that of the signature, of a function around or of the module when there is one."""
        known = next((s[name] for s in reversed(self.scopes) if name in s), self.shared.get(name))
        return known if isinstance(known, Var) and known.dtype == dtype else Var(name, dtype)


__all__ = ["InfoParser", "VARS"]
