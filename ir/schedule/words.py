"""Plans in words: one place for the comments in the C, `ingot inspect` and records."""
from __future__ import annotations

from dataclasses import dataclass, field

ONE_THREAD = "none"  # what threads share of a kernel that one of them runs


@dataclass(frozen=True)
class Words:
    """What the plans of a rule speak of. order: its loops over tiles, outermost first, where no plan decides them;
    block, turn, parts: what these numbers of a plan count; algorithms, threads: {value: words}, for those that need
    some."""

    order: tuple = ()
    block: str = ""
    turn: str = ""
    parts: str = "sums in {} parts"
    algorithms: dict = field(default_factory=dict)
    threads: dict = field(default_factory=dict)


_IMAGE = ("bands", "channels", "rows", "columns")

WORDS = {  # by the name of the rule, or of a stage that has a plan of its own
    "attention": Words(("heads", "rows"), turn="{} vectors of keys at a time"),
    "attention_blocks": Words(("heads", "rows", "blocks of keys")),
    "attention_cores": Words(("heads", "queries", "blocks of keys")),
    "blocked_convolution": Words(_IMAGE, "bands of {} rows"),
    "byte_tiles": Words(),
    "byte_windows": Words(),
    "columns": Words(_IMAGE, "bands of {} rows"),
    "contraction": Words(block="blocks of {} tiles of rows", turn="groups of {} panels",
                         algorithms={"tiles": "", "dots": "dot products", "unit": "a unit for tiles"}),
    "elementwise": Words(),
    "fallback": Words(),
    "gather": Words(),
    "gpu_product": Words(("tiles", "terms", "rows", "columns"), turn="{} terms at a time"),
    "local_response": Words(("rows", "points", "channels"), "{} points at a time"),
    "points": Words(block="{} results a block", turn="a thread makes {} neighbours", parts="{} threads a result",
                    algorithms={"whole": "a thread makes whole results", "parts": "", "neighbours": ""}),
    "rows": Words(block="{} rows a block", turn="{} threads a row", algorithms={"warp": "", "block": ""}),
    "phases": Words(("bands", "channels", "rows", "phases", "columns"), "bands of {} rows"),
    "pointwise_depthwise": Words(("bands", "channels"), "bands of {} rows", "{} vectors of channels a turn"),
    "quantized_product": Words(("columns", "rows", "blocks of terms")),
    "recurrence": Words(("time", "columns", "rows")),
    "register_tile": Words(("channels", "rows", "columns")),
    "row_reduction": Words(),
    "scores": Words(("columns", "rows")),
    "stepwise": Words(),
    "tensor_core_product": Words(turn="{} terms at a time"),
    "transpose": Words(),
    "values": Words(("columns", "rows")),
    "windows": Words(_IMAGE, "bands of {} rows", algorithms={"held": "data of a row in registers"}),
    "warpgroup_product": Words(turn="{} terms at a time"),
    "winograd": Words(("blocks", "channels", "planes", "tiles"), "blocks of {} rows of tiles",
                      "{} vectors of channels a turn",
                      threads={"rows": "threads share blocks", "each": "threads share channels, each makes all data"}),
}


def in_words(plan):
    """What a Plan decides, in words: algorithm, tile, sizes of blocks, order of loops, what threads share."""
    words = WORDS.get(plan.rule, Words(block="block {}", turn="turn {}"))
    sizes = ((words.block, plan.block), (words.turn, plan.turn), (words.parts, plan.parts))
    order = plan.order or (words.order if plan.tile or plan.block else ())
    shared = plan.threads not in ("", ONE_THREAD) and words.threads.get(plan.threads, f"threads share {plan.threads}")
    parts = [words.algorithms.get(plan.algorithm, plan.algorithm), f"tile {plan.tile}" if plan.tile else "",
             *(text.format(n) for text, n in sizes if n and n > 1), f"loops over {', '.join(order)}" if order else "",
             shared]
    stages = (in_words(s) if s.rule == plan.rule else f"{s.rule}: {in_words(s)}" for s in plan.stages)
    return "; ".join([*filter(None, parts), *dict.fromkeys(stages)])
