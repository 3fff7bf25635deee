"""Schedules for GPUs: the rules for targets of kinds "cuda" and "opencl", in the order in which they are tried.

A rule is what it is for processors (rules/__init__.py): it looks at blocks, and hands back the Kernel that a Plan is
chosen for and how one is applied. When it is done, every nest directly inside the root block is a device kernel: its
outer loops are bound to blocks and threads. The last rule fits every function.
"""
from __future__ import annotations

from .attention_cores import attention_cores
from .fallback import fallback
from .points import points
from .product import gpu_product
from .rows import rows
from .stepwise import stepwise
from .tensor_core_product import tensor_core_product
from .transpose import transpose
from .warpgroup_product import warpgroup_product

RULES = {rule.__name__: rule for rule in (
    attention_cores, stepwise, warpgroup_product, tensor_core_product, gpu_product, rows, points, transpose, fallback)}
KINDS = ("cuda", "opencl")  # of the targets that they are for
