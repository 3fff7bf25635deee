"""relax.backend: patterns of what external generators take, by their names.

    pattern_registry.py   register_patterns, get_patterns_with_prefix, get_pattern
    cblas.py              products by a BLAS library: partition_for_cblas
    patterns.py, blas.py  patterns that tables of several libraries share
    cuda, rocm, metal     the tables of libraries for GPUs, for generators that a script registers
    dispatch.py           DispatchSortScan, DispatchSampling
    utils.py              what checks of matches ask
"""
from ....ir.transform.fuse_by_pattern import FusionPattern as Pattern  # noqa: F401
from . import cblas, cuda, metal, pattern_registry, rocm  # noqa: F401
from .dispatch import DispatchSampling, DispatchSortScan  # noqa: F401
from .pattern_registry import get_pattern, get_patterns_with_prefix, register_patterns  # noqa: F401
