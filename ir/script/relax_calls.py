"""Calls of a graph function's script with a reading of their own: of functions of the module, foreign functions, control
flow. RelaxParser.call finds each by its name, call_<name>."""
from __future__ import annotations

from ..expr import as_expr
from ..module import GlobalVar
from ..relax import expr as X
from ..relax.control import BODIES, tensor_to_shape
from ..relax.inplace import call_tir_inplace
from ..relax.tensor_calls import TensorCall
from .evaluator import describe
from .relax_infos import InfoParser
from .relax_names import InfoSpec


class CallParser(InfoParser):
    def call_call_tir(self, node, gv, args=(), out_sinfo=None, tir_vars=(), **attrs):
        """R.call_tir(cls.f, (x, y), out_sinfo=R.Tensor(...), tir_vars=R.shape([n]))"""
        if not isinstance(gv, GlobalVar):
            self.fail(node, f"R.call_tir calls a function of the module, as cls.name, not {describe(gv)}")
        if out_sinfo is None:
            self.fail(node, "R.call_tir needs out_sinfo, the struct info of what it makes")
        out = [self.info(i, node) for i in out_sinfo] if isinstance(out_sinfo, (list, tuple)) \
            else self.info(out_sinfo, node)
        args = args.fields if isinstance(args, X.RelaxTuple) else args
        args = args if isinstance(args, (tuple, list)) else (args,)
        dims = tuple(getattr(tir_vars, "values", tir_vars))
        call = X.call_tir(gv, [self.leaf(a, node) for a in args], out, dims)
        return call.replace(attrs={**call.attrs, **attrs}) if attrs else call

    def call_emit_te(self, node, func, *args, primfunc_name_hint=None, **kwargs):
        """R.emit_te(f, x, 2): R.call_tir of the PrimFunc that f describes, which joins the module"""
        if self.add_function is None:
            self.fail(node, "R.emit_te adds a function to the module: write it in a class below @I.ir_module")
        made = TensorCall(func, args, kwargs, lambda a: self.leaf(a, node), None)
        name = primfunc_name_hint or getattr(func, "name", None) or getattr(func, "__name__", "te_func")
        gv = self.add_function(made.func, name.rpartition(".")[2].replace("<lambda>", "te_func"))
        return X.call_tir(gv, made.args, made.info, made.dims)

    def call_call_tir_inplace(self, node, gv, args=(), inplace_indices=(), out_sinfo=None, tir_vars=()):
        """R.call_tir_inplace(cls.f, (x, y), inplace_indices=[0], out_sinfo=[R.Tensor(...)])"""
        call = self.call_call_tir(node, gv, args, out_sinfo, tir_vars)
        info = call.struct_info
        try:
            return call_tir_inplace(gv, call.args, inplace_indices, list(getattr(info, "fields", (info,))),
                                    call.attrs["sym_args"])
        except ValueError as error:
            self.fail(node, str(error))

    def call_call_if(self, node, cond, *args, then, other, dims=()):
        """R.call_if(c, x, then=cls.f, other=cls.g, dims=[(n, 2, 3)]), annotated with what it gives"""
        dims = tuple((var, *(as_expr(v).astype("int64") for v in values)) for var, *values in dims)
        return self._control(node, "call_if", (cond, *args), {"then": then, "other": other, "dims": dims})

    def call_call_loop(self, node, *args, body, index, turns=None, count=None, limit=False, cond=False, carried=0,
                       scanned=0):
        """R.call_loop(limit, cond, *carried, *scanned, *captured, body=cls.f, index=i, ...), annotated"""
        turns = None if turns is None else as_expr(turns).astype("int64")
        attrs = {"body": body, "index": index, "turns": turns, "count": count, "limit": limit, "cond": cond,
                 "carried": carried, "scanned": scanned}
        return self._control(node, "call_loop", args, attrs)

    def _control(self, node, name, args, attrs):
        for key in BODIES[name]:
            if not isinstance(attrs[key], GlobalVar):
                self.fail(node, f"R.{name}: {key} is a function of the module, as cls.name, not {describe(attrs[key])}")
        return X.RelaxCall(name, tuple(self.leaf(a, node) for a in args), attrs, None)

    def call_to_vdevice(self, node, data, dst_vdevice):
        """R.to_vdevice(x, "cuda:1"): a device by its number among the module's, or an I.vdevice"""
        device = self.device(dst_vdevice, node) if isinstance(dst_vdevice, str) else dst_vdevice
        return self.operator(node, "to_vdevice", (data, device), {})

    def call_assert_op(self, node, condition, *format_args, **attrs):
        """R.assert_op(c, x, y, format="{} {}"), or with [x, y]"""
        if len(format_args) > 1 and not isinstance(format_args[1], (str, X.RelaxString)):
            format_args = format_args,
        return self.operator(node, "assert_op", (condition, *format_args), attrs)

    def call_tensor_to_shape(self, node, tensor, dims=None):
        """R.tensor_to_shape(x, dims=[n, m])"""
        if dims is None:
            return self.operator(node, "tensor_to_shape", (tensor,), {})
        return tensor_to_shape(self.leaf(tensor, node), dims)

    def call_ExternFunc(self, node, global_symbol, struct_info=None):  # noqa: N802  (R's name)
        """R.ExternFunc("name", R.Callable(...)): a foreign function, and what it gives"""
        return X.ExternFunc(global_symbol, None if struct_info is None else self.info(struct_info, node))

    def call_call_packed(self, node, name, *args, sinfo_args=None, kind="call_packed", **attrs):
        """R.call_packed("name", x, sinfo_args=R.Tensor(...))"""
        if isinstance(sinfo_args, (list, tuple)):
            sinfo_args = sinfo_args[0] if len(sinfo_args) == 1 else InfoSpec("Tuple", tuple(sinfo_args))
        info = X.ObjectStructInfo() if sinfo_args is None else self.info(sinfo_args, node)
        return X.RelaxCall(kind, tuple(self.leaf(a, node) for a in args), {"func": X.foreign_name(name), **attrs}, info)

    def call_call_pure_packed(self, node, name, *args, **attrs):
        return self.call_call_packed(node, name, *args, kind="call_pure_packed", **attrs)

    def call_call_builtin_with_ctx(self, node, name, args=(), sinfo_args=None):
        """R.call_builtin_with_ctx("name", (x, y), sinfo_args=R.Tensor(...))"""
        args = getattr(args, "fields", args)
        return self.call_call_packed(node, name, *args, sinfo_args=sinfo_args, kind="call_builtin_with_ctx")

    def call_call_inplace_packed(self, node, name, *args, inplace_indices, sinfo_args=None):
        """R.call_inplace_packed("name", x, inplace_indices=[0], sinfo_args=R.Tensor(...))"""
        given = self.call_call_packed(node, name, *args, sinfo_args=sinfo_args)
        return X.call_inplace_packed(name, *given.args, inplace_indices=inplace_indices, sinfo_args=given.struct_info)

    def call_call_dps_packed(self, node, name, args=(), out_sinfo=None, **attrs):
        """R.call_dps_packed("name", (x, y), out_sinfo=R.Tensor(...))"""
        call = self.call_call_tir(node, GlobalVar(str(name)), args, out_sinfo)
        return X.RelaxCall("call_dps_packed", call.args, {"func": X.foreign_name(name), **attrs}, call.struct_info)

    def call_call_tir_with_grad(self, node, gv, args=(), out_sinfo=None, te_grad_name=None, te_grad_kwargs=None,
                                tir_vars=()):
        """R.call_tir_with_grad(cls.f, (x,), out_sinfo=R.Tensor(...), te_grad_name="g", te_grad_kwargs={"k": 1.0})"""
        call = self.call_call_tir(node, gv, args, out_sinfo, tir_vars)
        return X.call_tir_with_grad(gv, call.args, call.struct_info, te_grad_name, te_grad_kwargs, tir_vars)


__all__ = ["CallParser"]
