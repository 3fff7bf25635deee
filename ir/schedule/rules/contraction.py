"""Contractions: rows x arithmetic x epilogue. What stages an arithmetic has, roles.py says; how they are scheduled, its
row in arithmetics.py."""
from __future__ import annotations

from .arithmetics import SCHEDULES
from .roles import arithmetic_of


def contraction(sch, target):
    """matmul and nn.conv2d_pointwise with what is fused to them."""
    return SCHEDULES[arithmetic_of(sch)].products(sch, target)
