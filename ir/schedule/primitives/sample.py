"""Sampling: numbers and places drawn from the schedule's seed; the trace keeps what was drawn."""
from __future__ import annotations

from math import prod

from ...expr import IntImm, is_const_int
from ..blocks import name_of, uses
from ..errors import ScheduleError
from ..nest import neighbours
from ..registry import (BLOCK, CHOICE, EXPR, EXPRS, INT, INTS, LOOP, NUMBERS, TILING, Result, primitive)
from ..handles import Mark
from ..index import blocks_below
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
        decision = ctx.rng.weighted(probs)
    if not 0 <= decision < len(candidates):
        ctx.refuse("'decision'", f"{decision} is not a position among {len(candidates)} candidates")
    return Result(ctx.func, (candidates[decision],), recorded={"decision": decision})


@primitive(EXPRS, pure=True, loop=LOOP, n=INT, max_innermost_factor=INT, decision=TILING)
def sample_perfect_tile(ctx, loop, n, max_innermost_factor=16, decision=None):
    """`n` factors whose product is the extent of a loop, the last at most max_innermost_factor (-1: of any size); all
    such lists are equally likely. decision: the factors to take instead of drawing. Of a loop whose extent is no
    constant nothing is drawn: the first factor is None, which split infers, and the others are 1.
    """
    name, extent = loop.loop_var.name, _extent(ctx, loop, n, decision)
    if max_innermost_factor < 1 and max_innermost_factor != -1:
        ctx.refuse("'max_innermost_factor'", f"{max_innermost_factor} is not positive")
    if extent is None:
        return _left_whole(ctx, n)
    most = extent if max_innermost_factor == -1 else max_innermost_factor
    if decision is None and n == 1 and extent > most:
        ctx.refuse("'max_innermost_factor'", f"extent {extent} of loop {name} is no single factor of at most "
                   f"{max_innermost_factor}", "ask for more factors", [loop])
    return _tiled(ctx, loop, n, decision, lambda factors: factors[-1] <= most)


@primitive(EXPRS, pure=True, loop=LOOP, n=INT, partition_pos=INT, innerpart_factor=INT, decision=TILING)
def sample_partitioned_tile(ctx, loop, n, partition_pos=0, innerpart_factor=1, decision=None):
    """`n` factors whose product is the extent of a loop, where those from position partition_pos on have a product
    that innerpart_factor divides; all such lists are equally likely. decision: the factors to take instead of drawing.
    Of a loop whose extent is no constant, or no multiple of innerpart_factor, nothing is drawn: the first factor is None,
    which split infers, and the others are 1.
    """
    extent = _extent(ctx, loop, n, decision)
    if not 0 <= partition_pos <= n:
        ctx.refuse("'partition_pos'", f"{partition_pos} is no position among {n} factors")
    if innerpart_factor < 1:
        ctx.refuse("'innerpart_factor'", f"{innerpart_factor} is not positive")
    if extent is None or extent % innerpart_factor:
        return _left_whole(ctx, n)
    if partition_pos == n and innerpart_factor > 1:
        ctx.refuse("'partition_pos'", f"no factor is behind position {n}, and {innerpart_factor} must divide their "
                   "product", "choose a smaller one", [loop])
    return _tiled(ctx, loop, n, decision, lambda factors: prod(factors[partition_pos:]) % innerpart_factor == 0)


def _extent(ctx, loop, n, decision):
    """The extent of a loop that is to have n factors, None where it is no constant."""
    if n < 1:
        ctx.refuse("'n'", f"{n} is not positive")
    if isinstance(loop.extent, IntImm):
        return loop.extent.value
    if decision is not None:
        ctx.refuse("'decision'", f"the extent of loop {loop.loop_var.name} is {loop.extent}, not a constant",
                   "give split the factors", [loop])
    return None


def _left_whole(ctx, n):
    return Result(ctx.func, (None, *(1,) * (n - 1)), recorded={"decision": None})


def _tiled(ctx, loop, n, decision, fits):
    """The Result of n factors of a loop: the decision, or drawn again until they fit."""
    extent = loop.extent.value
    if extent < 1:
        ctx.refuse("'loop'", f"the extent {extent} of loop {loop.loop_var.name} has no factors", "", [loop])
    while decision is None:
        drawn = _random_tiling(ctx.rng, extent, n)
        decision = drawn if fits(drawn) else None
    if len(decision) != n or prod(decision) != extent or min(decision) < 1:
        ctx.refuse("'decision'", f"{list(decision)} is not {n} factors of extent {extent}", "", [loop])
    return Result(ctx.func, tuple(decision), recorded={"decision": tuple(decision)})


_LARGE = 65536  # primes from here on are drawn for as a whole


def _random_tiling(rng, extent, n):
    """n factors of an extent, all lists equally likely: the powers of each prime are dealt out on their own."""
    factors = [1] * n
    if n == 1:
        return (extent,)
    for prime, power in _prime_powers(extent):
        for place, share in enumerate(_dealt(rng, prime, power, n)):
            factors[place] *= prime ** share
    return tuple(factors)


def _dealt(rng, prime, power, n):
    """How often each of n factors has a prime."""
    if n == 2 and prime < _LARGE:
        first = rng.below(power + 1)
        return first, power - first
    if power == 1:
        place = rng.below(n)
        return [int(i == place) for i in range(n)]
    bars = sorted(rng.sample(power + n - 1, n - 1))  # stars between bars
    return [high - low - 1 for low, high in zip([-1, *bars], [*bars, power + n - 1])]


def _prime_powers(number):
    """The primes of a number with their powers, the least first."""
    divisor, found = 2, []
    while number > 1:
        if divisor * divisor > number:
            divisor = number
        power = 0
        while number % divisor == 0:
            number, power = number // divisor, power + 1
        if power:
            found.append((divisor, power))
        divisor += 1
    return found


def divisors(number):
    """All divisors of a number, the least first."""
    small = [d for d in range(1, int(number ** 0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


@primitive(LOOP, pure=True, block=BLOCK, decision=CHOICE)
def sample_compute_location(ctx, block, decision=None):
    """A loop under which compute_at may put a block, all equally likely; for compute_at.

    decision: which loop around the first consumer, counted from the outermost; -1 leaves the block where it is, -2
    inlines it. Drawn among -1 and what is legal now, but for loops of one turn and those inside a loop that sums up.
    """
    scope = ctx.scope(block, "'block'")
    consumers = neighbours(ctx.index, scope, block)[1]
    loops = ctx.index.loops_above(consumers[0]) if consumers else []
    if decision is None:
        legal = [*[-2] * _accepts(compute_inline, ctx, block), -1,
                 *(i for i in _promising(ctx, loops) if _accepts(compute_at, ctx, block, loops[i]))]
        decision = legal[ctx.rng.below(len(legal))]
    if not -2 <= decision < len(loops):
        ctx.refuse("'decision'", f"{decision} is not a loop of block {name_of(block)}'s first consumer",
                   f"it has {len(loops)}; -1 is the root, -2 inlines", [block])
    chosen = {-1: Mark.ROOT, -2: Mark.INLINE}.get(decision) or loops[decision].loop_var
    return Result(ctx.func, (chosen,), recorded={"decision": decision})


def _promising(ctx, loops):
    """The positions of loops of several turns, from the outermost: of those over different elements, and of those that
    sum up around the last such one, none behind it."""
    several = [i for i, loop in enumerate(loops) if not is_const_int(loop.extent, 1)]
    elements = [i for i in several if _over_elements(ctx, loops[i])]
    chosen = [i for i in several if i <= max(elements, default=-1)]
    sums = [i for i in chosen if i not in elements]
    behind = next((e for e in elements if sums and e > sums[0]), None)
    return [i for i in chosen if behind is None or i < behind]


def _over_elements(ctx, loop):
    """Whether a loop's turns are of different elements, for all blocks inside it: no iterator that sums up uses it."""
    return all(iv.iter_type == "spatial" for block in blocks_below(loop)
               for iv, value in zip(block.block.iter_vars, block.iter_values) if uses(value, {loop.loop_var}))


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
