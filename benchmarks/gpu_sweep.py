"""Products by every tile that fits them, for benchmarks/gpu.py, and what was measured as rows of data."""
from __future__ import annotations

import ingot
from ingot.ir.schedule.plan import Plan
from ingot.ir.schedule.rules.gpu.products import TILES as SIMT
from ingot.ir.schedule.rules.gpu.tensor_core_tiles import TILES as WARPS
from ingot.ir.schedule.rules.gpu.tensor_core_tiles import WARPGROUP_TILES as WARPGROUPS

PARTS = (1, 2, 4, 8)  # into which sums are cut
# rule -> its tiles
RULES = {"warpgroup_product": WARPGROUPS, "tensor_core_product": WARPS, "gpu_product": SIMT}


def plans():
    """Yield every Plan of a product, whatever fits it."""
    for rule, tiles in RULES.items():
        for tile in tiles:
            for parts in PARTS:
                yield Plan(rule, algorithm=tile.name, parts=parts)


def variants(items, target):
    """Yield (Item, Plan, library) for each plan that fits an item; the library is not built yet."""
    for item in items:
        kernel = next(iter(ingot.recorded_plans(item.model, target=target)))
        for plan in plans():
            try:
                yield item, plan, ingot.compile(item.model, target=target, schedules={kernel: plan})
            except ValueError:
                continue  # a plan of another target, dtype or size


def rows_of(timed):
    """Rows of data, those of an item from the fastest on: (Item, Plan, seconds) each."""
    rows, order = [], {}
    for item, plan, seconds in timed:
        order.setdefault(item.name, (item, []))[1].append((seconds, plan))
    for item, found in order.values():
        rows.append(f"# {item.name}")
        for seconds, plan in sorted(found, key=lambda pair: pair[0]):
            rows.append(f"({plan.rule!r}, {plan.algorithm!r}, {plan.parts}),  # {seconds * 1e6:.1f} us, "
                        f"{item.flops / seconds * 1e-12:.1f} TFLOP/s")
    return rows
