"""Costs and schedules of the arithmetics: SCHEDULES has a row for each of relax/arithmetic, by name."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...relax.arithmetic import LANES
from ...relax.arithmetic.digits import COLUMNS, MOST_TERMS
from . import digit_tiles, pair_tiles, short_terms
from . import winograd_blocks, winograd_digit_blocks, winograd_products
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
    image; far: cycles in which its columns are streamed from memory, 0 where they are resident. plane_cycles(target,
    layer): of a winograd_blocks.Layer. None where it is for none.
    least, share: the costs that say how many channels an image has at least, and below what share of the time of a
    direct convolution one of points is taken.
    where(target): what convolutions it is for, in a message.
    """

    products: Callable
    planes: Planes | None = None
    worth: Callable = lambda target, rows, depth, columns: False
    layout: Callable | None = None
    point_cycles: Callable = lambda target, points, channels, outputs, far: None
    plane_cycles: Callable = lambda target, layer: None
    least: str = "conv.least_channels"
    share: str = "conv.profitable"
    where: Callable = lambda target: ""


def _digits_of_points(target, points, channels, outputs, far):
    fits = digit_tiles.fits(points, channels, outputs, target.cost("split_integer.least_rows"))
    return digit_tiles.cycles(target, points, channels, outputs) if fits else None


def _digits_of_planes(target, layer):
    fits = layer.out_blocks * LANES >= COLUMNS and layer.channels <= MOST_TERMS
    return winograd_digit_blocks.cycles(target, layer) if fits else None


def _pairs_of_points(target, points, channels, outputs, far):
    resident = pair_tiles.cycles(target, points, channels, outputs)
    return max(resident, far) + target.cost("inner_product.beside") * min(resident, far)


def _pairs_of_planes(target, layer):
    fits = layer.channels >= target.cost("inner_product.least_planes")
    return winograd_blocks.cycles(target, replace(layer, pairs=True)) if fits else None


def _where_digits(target):
    least = target.cost("split_integer.least_rows")
    return (f"digits are for 1x1 of {least} points or more, and for Winograd's products of whole blocks without groups, "
            f"with {COLUMNS} output channels or more, blocked, on a target with a unit for tiles of integers")


def _where_pairs(target):
    points, planes = target.cost("inner_product.least_channels"), target.cost("inner_product.least_planes")
    return (f"pairs are for 1x1 of {points} channels or more and Winograd's products of {planes} or more, on a target "
            "with units for additions beside those for FMAs")


def _panels_of_tiles(target, tile):
    return {"panel": tile.vectors * target.lanes, "lanes": target.lanes}


SCHEDULES = {
    "fma": ArithmeticSchedule(product, winograd_products.FMA_PLANES),
    "digits": ArithmeticSchedule(
        digit_products, winograd_products.DIGIT_PLANES, digit_tiles.worth,
        point_cycles=_digits_of_points, plane_cycles=_digits_of_planes, where=_where_digits),
    "pairs": ArithmeticSchedule(
        pair_products, winograd_products.PAIR_PLANES, pair_tiles.worth,
        point_cycles=_pairs_of_points, plane_cycles=_pairs_of_planes, least="inner_product.least_channels",
        share="inner_product.points_profitable", where=_where_pairs),
    "short": ArithmeticSchedule(product, worth=short_terms.worth, layout=_panels_of_tiles),
}


def schedule_of(row):
    """That of an arithmetic; of one without its own that of FMAs."""
    return SCHEDULES.get(row.name, SCHEDULES["fma"])
