"""Checks for tests of programs that were compiled: tvm.testing's names."""
from __future__ import annotations

import os
import sys

import numpy as np

from ...codegen.toolchains import cpu_flags
from ...ir.arith import Analyzer
from ...ir.dtype import DataType
from ...ir.expr import IntImm, const, logical_and, substitute
from ...ir.tir.values import values_of
from ...runtime.device import cpu, device
from ..comparing import CompareBeforeAfter, fixture, parameter, parameters  # noqa: F401
from .utils import check_numerical_grads  # noqa: F401


def assert_allclose(actual, desired, rtol=1e-7, atol=1e-7):
    """Raise AssertionError unless actual and desired are arrays (NDArrays, or what numpy takes) of one shape with
    |actual - desired| <= atol + rtol * |desired| everywhere; NaN equals NaN."""
    actual, desired = _array(actual), _array(desired)
    if actual.shape != desired.shape:
        raise AssertionError(f"shapes differ: actual {actual.shape}, desired {desired.shape}")
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)


def _array(value):
    """A numpy array; small floats, which numpy cannot compare, as float32."""
    array = value.numpy() if hasattr(value, "numpy") else np.asanyarray(value)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


# ---------------------------------------------------------------- integer expressions

def assert_prim_expr_equal(lhs, rhs):
    """Raise ValueError unless two integer expressions (or ints) provably are always equal."""
    if not Analyzer().can_prove_equal(lhs, rhs):
        raise ValueError(f"{lhs} and {rhs} are not equal")


def check_bool_expr_is_true(bool_expr, vranges, cond=None):
    """Raise AssertionError, with an example, unless `bool_expr` holds for all values of the variables of `vranges`
    {Var: Range} for which `cond` (None: all) holds. Both are evaluated for every one of them."""
    if isinstance(cond, IntImm) and not cond.value:
        return
    axes = {v: np.arange(int(r.min), int(r.min) + int(r.extent)) for v, r in vranges.items()}
    grids = dict(zip(axes, np.meshgrid(*axes.values(), indexing="ij", sparse=True)))
    wrong = np.logical_not(values_of(bool_expr, grids))
    if cond is not None:
        wrong = np.logical_and(wrong, values_of(cond, grids))
    if np.any(wrong):
        at = np.argwhere(np.broadcast_to(wrong, [len(a) for a in axes.values()]))[0]
        case = ", ".join(f"{v.name} = {values[i]}" for (v, values), i in zip(axes.items(), at))
        raise AssertionError(f"{bool_expr} does not hold for {case or 'anything'}"
                             + ("" if cond is None else f", where {cond} does"))


def check_int_constraints_trans_consistency(constraints_trans, vranges=None):
    """Raise AssertionError unless an IntConstraintsTransform maps the solutions of its two systems one to one.

    vranges {Var: Range}: the parameters of the systems."""
    t = constraints_trans
    for source, target, there, back in ((t.src, t.dst, t.src_to_dst, t.dst_to_src),
                                        (t.dst, t.src, t.dst_to_src, t.src_to_dst)):
        claims = [v == substitute(there[v], back) for v in source.variables if v in there]
        claims += [substitute(e, back) for e in target.relations]
        for v in target.variables:
            if v in target.ranges:
                r = target.ranges[v]
                claims += [substitute(v >= r.min, back), substitute(v < r.min + r.extent, back)]
        check_bool_expr_is_true(_all(claims), {**(vranges or {}), **source.ranges}, _all(source.relations))


def _all(conditions):
    out = const(True)
    for condition in conditions:
        out = logical_and(out, condition)
    return out


def main():
    """Run pytest over the file that calls this, with the command line's arguments, and exit with its status."""
    import pytest
    sys.exit(pytest.main([sys._getframe(1).f_globals["__file__"], *sys.argv[1:]]))


def strtobool(text):
    """1 for y, yes, t, true, on and 1; 0 for n, no, f, false, off and 0; else ValueError."""
    words = {**dict.fromkeys(("y", "yes", "t", "true", "on", "1"), 1),
             **dict.fromkeys(("n", "no", "f", "false", "off", "0"), 0)}
    if text.lower() not in words:
        raise ValueError(f"{text!r} is neither true nor false")
    return words[text.lower()]


def get_dtype_range(dtype):
    """(least, greatest) value of a dtype."""
    dtype = DataType(dtype)
    return dtype.min_value(), dtype.max_value()


# ---------------------------------------------------------------- what a test needs

class Feature:
    """What a test needs of the machine: a decorator of functions and classes, with or without (), that skips them
    where there is none. met: whether there is."""

    def __init__(self, name, met, reason=None):
        self.name, self.met, self.reason = name, met, reason or f"needs {name}"

    def marks(self, support_required="compile-and-run"):
        """The marks of pytest that the decorator applies."""
        import pytest
        return [pytest.mark.skipif(not self.met(), reason=self.reason)]

    def __call__(self, func=None, *, support_required="compile-and-run"):
        if func is None:
            return self
        for mark in self.marks(support_required):
            func = mark(func)
        return func


def device_enabled(target):
    """Whether programs for a target run here: "llvm" and "c" always, others where their device is."""
    kind = str(getattr(target, "kind", target)).split()[0]
    return kind in ("llvm", "c") or kind in ("cuda", "opencl") and _exists(kind)


def enabled_targets():
    """[(target, device)] of what runs here."""
    return [("llvm", cpu()), *((kind, device(kind)) for kind in ("cuda",) if _exists(kind))]


def _exists(kind):
    try:
        return bool(device(kind).exist)
    except (ValueError, OSError, RuntimeError):
        return False


def _cpu_has(*flags):
    return lambda: set(flags) <= set(cpu_flags())


def _never():
    return False


_NEEDS = {
    "llvm": lambda: True, "gpu": lambda: _exists("cuda"), "cuda": lambda: _exists("cuda"),
    "opencl": lambda: _exists("opencl"), "tensorcore": lambda: _exists("cuda"),
    "x86": _cpu_has("sse2"), "x86_vnni": _cpu_has("avx512_vnni"), "x86_avx512": _cpu_has("avx512bw"),
    "x86_amx": _cpu_has("amx_int8"), "skylake_avx512": _cpu_has("avx512bw"), "cascadelake": _cpu_has("avx512_vnni"),
    "arm_dot": _cpu_has("asimddp"), "aarch64_sve": _cpu_has("sve"),
    # what there is no backend for
    **dict.fromkeys("""aarch64_sme adreno_opencl adreno_vulkan aprofile_aem_fvp arm_fp16 cmsisnn corstone300 cublas
        cudagraph cudnn cutlass ethosn ethosu hexagon hexagon_toolchain hf_hub hipblas libtorch matrixcore metal micro
        mrvl multi_gpu nvptx openclml rocm rpc vitis_ai vulkan webgpu wgpu""".split(), _never)}
globals().update((f"requires_{name}", Feature(name, met)) for name, met in _NEEDS.items())
uses_gpu = Feature("a GPU where there is one", lambda: True)


def requires_package(*packages):
    """The decorator that skips a test where a package cannot be imported."""
    import pytest

    def decorate(func):
        for name in packages:
            func = pytest.mark.skipif(not _imports(name), reason=f"needs the package {name}")(func)
        return func
    return decorate


def _imports(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def requires_llvm_minimum_version(major_version):
    """The C of the host's compiler takes the place of every LLVM: what needs one runs."""
    return Feature("llvm", lambda: True)


def requires_nvcc_version(major_version, minor_version=0, release_version=0):
    return Feature(f"nvcc {major_version}.{minor_version}", lambda: _exists("cuda"))


def requires_cuda_compute_version(major_version, minor_version=0):
    """The decorator that skips a test where no CUDA device has this compute capability."""
    def met():
        if not _exists("cuda"):
            return False
        version = tuple(int(part) for part in str(device("cuda").compute_version).split("."))
        return version >= (major_version, minor_version)
    return Feature(f"CUDA compute capability {major_version}.{minor_version}", met)


def skip_if_32bit(reason):
    """The decorator that skips a test in a Python of 32 bits."""
    return Feature("64 bits", lambda: sys.maxsize > 1 << 32, reason)


def skip_if_wheel_test(func):
    """func, but where the environment sets WHEEL_TEST, to test an installed package."""
    return Feature("a source tree", lambda: not strtobool(os.environ.get("WHEEL_TEST", "0")))(func)


def parametrize_targets(*targets):
    """The decorator that runs a test, with arguments `target` and `dev`, for the targets given, or for all that run
    here: @parametrize_targets("llvm", "cuda"), or without ()."""
    import pytest
    if len(targets) == 1 and callable(targets[0]):
        return parametrize_targets()(targets[0])
    rows = [(t, device(str(t).split()[0])) for t in targets if device_enabled(t)] if targets else enabled_targets()
    return pytest.mark.parametrize(("target", "dev"), rows)


__all__ = ["CompareBeforeAfter", "Feature", "assert_allclose", "device_enabled", "enabled_targets", "fixture",
           "get_dtype_range", "main", "parameter", "parameters", "parametrize_targets", "requires_cuda_compute_version",
           "requires_llvm_minimum_version", "requires_nvcc_version", "requires_package", "skip_if_32bit",
           "skip_if_wheel_test", "strtobool", "uses_gpu", *(f"requires_{name}" for name in _NEEDS)]
