"""Costs and schedules of the arithmetics: SCHEDULES has a row for each of relax/arithmetic, by name."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...relax.arithmetic import LANES
from ...relax.arithmetic.digits import COLUMNS, MOST_TERMS
from . import (digit_tiles, pair_tiles, short_terms, winograd_blocks, winograd_digit_blocks,
               winograd_products)
from .digit_products import digit_products
from .pair_products import pair_products
from .product import product
from .winograd_products import Planes


@dataclass(frozen=True)
class ArithmeticSchedule:
    """The cost model and the schedule of the row of relax/arithmetic with this name.

    products(sch, target): the rule for products; planes: that for Winograd's (winograd_products.Planes), None without
    one

    worth(target, rows, depth, columns): whether a product of a constant is clearly faster than by FMAs.
    layout(target, tile): the keywords with which the row packs it for a Product's tile; None where none says how.
    point_cycles(target, (height, width), channels, outputs, far): of one core, for a product with the points of an
    image;
    far: cycles in which its columns come from far away, 0 where they are near. plane_cycles(target, layer): of a
    winograd_blocks.Layer. None where it is for none.
    least: channels of an image's points. share: of the time of a direct convolution, below which one of points is
    taken. where: what convolutions it is for, in a message.
    """

    products: Callable
    planes: Planes | None = None
    worth: Callable = lambda target, rows, depth, columns: False
    layout: Callable | None = None
    point_cycles: Callable = lambda target, points, channels, outputs, far: None
    plane_cycles: Callable = lambda target, layer: None
    least: int = 1
    share: float = 0.9
    where: str = ""


def _digits_of_points(target, points, channels, outputs, far):
    return digit_tiles.cycles(points, channels, outputs) if digit_tiles.fits(points, channels, outputs) else None


def _digits_of_planes(target, layer):
    fits = layer.out_blocks * LANES >= COLUMNS and layer.channels <= MOST_TERMS
    return winograd_digit_blocks.cycles(target, layer) if fits else None


def _pairs_of_points(target, points, channels, outputs, far):
    near = pair_tiles.cycles(target, points, channels, outputs)
    return max(near, far) + pair_tiles.BESIDE * min(near, far)


def _pairs_of_planes(target, layer):
    fits = layer.channels >= pair_tiles.LEAST_PLANES
    return winograd_blocks.cycles(target, replace(layer, pairs=True)) if fits else None


SCHEDULES = {
    "fma": ArithmeticSchedule(product, winograd_products.FMA_PLANES),
    "digits": ArithmeticSchedule(
        digit_products, winograd_products.DIGIT_PLANES, digit_tiles.worth, point_cycles=_digits_of_points,
        plane_cycles=_digits_of_planes,
        where=f"digits are for 1x1 of {digit_tiles.LEAST_ROWS} points or more, and for Winograd's products of whole "
              f"blocks without groups, with {COLUMNS} output channels or more, blocked, on a target with a unit for "
              "tiles of integers"),
    "pairs": ArithmeticSchedule(
        pair_products, winograd_products.PAIR_PLANES, pair_tiles.worth, point_cycles=_pairs_of_points,
        plane_cycles=_pairs_of_planes, least=pair_tiles.LEAST_CHANNELS, share=0.96,
        where=f"pairs are for 1x1 of {pair_tiles.LEAST_CHANNELS} channels or more and Winograd's products of "
              f"{pair_tiles.LEAST_PLANES} or more, on a target with units for additions beside those for "
              "FMAs"),
    "short": ArithmeticSchedule(product, worth=short_terms.worth, layout=lambda target, tile: {
        "panel": tile.vectors * target.lanes, "lanes": target.lanes}),
}


def schedule_of(row):
    """That of an arithmetic; of one without its own that of FMAs."""
    return SCHEDULES.get(row.name, SCHEDULES["fma"])
