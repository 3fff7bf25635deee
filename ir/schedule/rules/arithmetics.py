"""Costs and schedules of the arithmetics: SCHEDULES has a row for each of relax/arithmetic, by name."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...relax.arithmetic import LANES
from ...relax.arithmetic.split_integer import COLUMNS, MOST_TERMS
from . import compressed_weights, inner_product_tiles, split_integer_tiles
from . import winograd_blocks, winograd_products, winograd_split_integer
from .inner_products import inner_products
from .product import product
from .split_integer_products import split_integer_products
from .winograd_products import Planes


@dataclass(frozen=True)
class ArithmeticSchedule:
    """The cost model and the schedule of the row of relax/arithmetic with this name.

    products(sch, target): the rule for products; planes: that for Winograd's (winograd_products.Planes), None without
    one

    is_profitable(target, rows, depth, columns): whether a product of a constant is clearly faster than by FMAs.
    layout(target, tile): the keywords with which the row packs it for a Product's tile; None where none says how.
    point_cycles(target, (height, width), channels, outputs, streamed): of one core, for a product with the points of an
    image; streamed: cycles in which its columns come from memory, 0 where they are resident. plane_cycles(target,
    layer): of a winograd_blocks.Layer. None where it is for none.
    least, share: the costs that say how many channels an image has at least, and below what share of the time of a
    direct convolution one of points is taken.
    where(target): what convolutions it is for, in a message.
    """

    products: Callable
    planes: Planes | None = None
    is_profitable: Callable = lambda target, rows, depth, columns: False
    layout: Callable | None = None
    point_cycles: Callable = lambda target, points, channels, outputs, streamed: None
    plane_cycles: Callable = lambda target, layer: None
    least: str = "conv.least_channels"
    share: str = "conv.profitable"
    where: Callable = lambda target: ""


def _split_integers_of_points(target, points, channels, outputs, streamed):
    fits = split_integer_tiles.fits(points, channels, outputs, target.cost("split_integer.least_rows"))
    return split_integer_tiles.cycles(target, points, channels, outputs) if fits else None


def _split_integers_of_planes(target, layer):
    fits = layer.out_blocks * LANES >= COLUMNS and layer.channels <= MOST_TERMS
    return winograd_split_integer.cycles(target, layer) if fits else None


def _inner_products_of_points(target, points, channels, outputs, streamed):
    resident = inner_product_tiles.cycles(target, points, channels, outputs)
    return max(resident, streamed) + target.cost("inner_product.beside") * min(resident, streamed)


def _inner_products_of_planes(target, layer):
    fits = layer.channels >= target.cost("inner_product.least_planes")
    return winograd_blocks.cycles(target, replace(layer, inner_product=True)) if fits else None


def _where_split_integers(target):
    least = target.cost("split_integer.least_rows")
    return (f"split integers are for 1x1 of {least} points or more, and for Winograd's products of whole blocks "
            f"without groups, with {COLUMNS} output channels or more, blocked, on a target with a unit for tiles of "
            "integers")


def _where_inner_products(target):
    points, planes = target.cost("inner_product.least_channels"), target.cost("inner_product.least_planes")
    return (f"inner products are for 1x1 of {points} channels or more and Winograd's products of {planes} or more, on "
            "a target with units for additions beside those for FMAs")


def _panels_of_tiles(target, tile):
    return {"panel": tile.vectors * target.lanes, "lanes": target.lanes}


SCHEDULES = {
    "fma": ArithmeticSchedule(product, winograd_products.FMA_PLANES),
    "split_integer": ArithmeticSchedule(
        split_integer_products, winograd_products.SPLIT_INTEGER_PLANES, split_integer_tiles.is_profitable,
        point_cycles=_split_integers_of_points, plane_cycles=_split_integers_of_planes, where=_where_split_integers),
    "inner_product": ArithmeticSchedule(
        inner_products, winograd_products.INNER_PRODUCT_PLANES, inner_product_tiles.is_profitable,
        point_cycles=_inner_products_of_points, plane_cycles=_inner_products_of_planes,
        least="inner_product.least_channels", share="inner_product.points_profitable", where=_where_inner_products),
    "compressed": ArithmeticSchedule(product, is_profitable=compressed_weights.is_profitable, layout=_panels_of_tiles),
}


def schedule_of(row):
    """That of an arithmetic; of one without its own that of FMAs."""
    return SCHEDULES.get(row.name, SCHEDULES["fma"])
