"""Contractions: rows x arithmetic x epilogue. What stages an arithmetic has, roles.py says; how they are scheduled, its
row in arithmetics.py."""
from __future__ import annotations

from ..plan import Fixed, Match
from .arithmetics import SCHEDULES
from .product import product
from .roles import arithmetic_of


def contraction(sch, target):
    """matmul and nn.conv2d_pointwise with what is fused to them."""
    arithmetic = arithmetic_of(sch)
    products = SCHEDULES[arithmetic].products
    if products is product:
        return product(sch, target)
    return Match(Fixed("contraction", arithmetic), lambda plan, target: products(sch, target))
