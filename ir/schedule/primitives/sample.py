"""Sampling: numbers and places drawn from the schedule's seed; the trace keeps what was drawn."""
from __future__ import annotations

from ...expr import IntImm
from ..blocks import name_of
from ..errors import ScheduleError
from ..nest import neighbours
from ..registry import (BLOCK, CHOICE, EXPR, EXPRS, INT, INTS, LOOP, NUMBERS, TILING, Result, primitive)
from ..handles import Mark
from .compute_at import compute_at
from .inline import compute_inline


@primitive(EXPR, pure=True, candidates=INTS, probs=NUMBERS, decision=CHOICE)
def sample_categorical(ctx, candidates, probs, decision=None):
    """One of `candidates`, each with its probability; decision: the position to take instead of drawing.

    Requires as many probabilities as candidates, none negative, adding up to 1.
    """
    if not candidates or len(candidates) != len(probs):
        ctx.refuse("'probs'", f"there are {len(candidates)} candidates and {len(probs)} probabilities",
                   "give one for each")
    if any(p < 0 for p in probs) or abs(sum(probs) - 1) > 1e-3:
        ctx.refuse("'probs'", f"{list(probs)} are no probabilities", "they must not be negative and must add up to 1")
    if decision is None:
        decision = ctx.rng.choices(range(len(candidates)), probs)[0]
    if not 0 <= decision < len(candidates):
        ctx.refuse("'decision'", f"{decision} is not a position among {len(candidates)} candidates")
    return Result(ctx.func, (candidates[decision],), recorded={"decision": decision})


@primitive(EXPRS, pure=True, loop=LOOP, n=INT, max_innermost_factor=INT, decision=TILING)
def sample_perfect_tile(ctx, loop, n, max_innermost_factor=16, decision=None):
    """`n` factors whose product is the extent of a loop, the last at most max_innermost_factor; all such lists are
    equally likely. decision: the factors to take instead of drawing. Of a loop whose extent is no constant nothing is
    drawn: the first factor is None, which split infers, and the others are 1.
    """
    name = loop.loop_var.name
    if n < 1 or max_innermost_factor < 1:
        ctx.refuse("'n'" if n < 1 else "'max_innermost_factor'", f"{n if n < 1 else max_innermost_factor} is not "
                   "positive")
    if not isinstance(loop.extent, IntImm):
        if decision is not None:
            ctx.refuse("'decision'", f"the extent of loop {name} is {loop.extent}, not a constant",
                       "give split the factors", [loop])
        return Result(ctx.func, (None, *(1,) * (n - 1)), recorded={"decision": None})
    extent = loop.extent.value
    if decision is None:
        decision = _random_tiling(ctx.rng, extent, n, max_innermost_factor)
        if decision is None:
            ctx.refuse("'max_innermost_factor'", f"extent {extent} of loop {name} is no single factor of at most "
                       f"{max_innermost_factor}", "ask for more factors", [loop])
    product = 1
    for factor in decision:
        product *= factor
    if len(decision) != n or product != extent or min(decision) < 1:
        ctx.refuse("'decision'", f"{list(decision)} is not {n} factors of extent {extent}", "", [loop])
    return Result(ctx.func, tuple(decision), recorded={"decision": tuple(decision)})


def _random_tiling(rng, extent, n, most):
    """Draw the last factor with the weight of the ways to continue, then the others likewise; None: there is none."""
    factors, rest, limit = [], extent, most
    for left in range(n - 1, -1, -1):
        choices = [d for d in divisors(rest) if d <= limit] if left else [rest] * (rest <= limit)
        if not choices:
            return None
        factor = rng.choices(choices, [_tilings(rest // d, left) for d in choices])[0]
        factors.append(factor)
        rest, limit = rest // factor, extent
    return tuple(reversed(factors))


def divisors(number):
    """All divisors of a number, the least first."""
    small = [d for d in range(1, int(number ** 0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def _tilings(number, n):
    """In how many ways a number is an ordered product of n factors."""
    if n == 0:
        return int(number == 1)
    ways, divisor = 1, 2
    while number > 1:
        if divisor * divisor > number:
            divisor = number
        power = 0
        while number % divisor == 0:
            number, power = number // divisor, power + 1
        for k in range(1, power + 1):  # times the binomial (power + n - 1 over power)
            ways = ways * (n - 1 + k) // k
        divisor += 1
    return ways


@primitive(LOOP, pure=True, block=BLOCK, decision=CHOICE)
def sample_compute_location(ctx, block, decision=None):
    """A loop under which compute_at may put a block, all equally likely; for compute_at.

    decision: which loop around the first consumer, counted from the outermost; -1 leaves the block where it is, -2
    inlines it. Drawn among -1 and all that is legal now.
    """
    scope = ctx.scope(block, "'block'")
    consumers = neighbours(ctx.index, scope, block)[1]
    loops = ctx.index.loops_above(consumers[0]) if consumers else []
    if decision is None:
        legal = [i for i, loop in enumerate(loops) if _accepts(compute_at, ctx, block, loop)]
        legal += [-2] * _accepts(compute_inline, ctx, block)
        decision = ctx.rng.choice([-1, *legal])
    if not -2 <= decision < len(loops):
        ctx.refuse("'decision'", f"{decision} is not a loop of block {name_of(block)}'s first consumer",
                   f"it has {len(loops)}; -1 is the root, -2 inlines", [block])
    chosen = {-1: Mark.ROOT, -2: Mark.INLINE}.get(decision) or loops[decision].loop_var
    return Result(ctx.func, (chosen,), recorded={"decision": decision})


def _accepts(move, ctx, *arguments):
    try:
        move(ctx, *arguments)
    except ScheduleError:
        return False
    return True


@primitive(None)
def enter_postproc(ctx):
    """Mark that what follows is post-processing, which Trace.apply and others leave out on request."""
    return Result(ctx.func)
