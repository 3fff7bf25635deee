"""Plans: the decision for a kernel, made once.

A Plan says which rule schedules a kernel, by which algorithm and arithmetic, and how it cuts the work. It is the
attribute "plan" of a PrimFunc: it prints, parses and replays with it. Graph passes that need a part of a decision, the
width of a panel of weights say, make a Plan that leaves the rest open and give it to the operator; the rule
completes it.

A Kernel says what a decision depends on. It lists `candidates`, tells what each costs, and fills in what follows from
the one that `choose` takes. Rules make the Kernel from blocks, graph passes from shapes.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from operator import itemgetter

from ..node import Node, node, structural_equal, structural_hash
from .words import ONE_THREAD, in_words

ATTRIBUTE = "plan"  # of a PrimFunc, and of the operators that graph passes decide for


class PlanError(ValueError):
    """A Plan that names no rule, one that does not fit, or what no candidate for the kernel has."""

    @property
    def line(self):
        return f"plan: {self}"


class _Value(Node):
    """A node that is equal to any of the same structure."""

    __slots__ = ()

    def __eq__(self, other):
        return structural_equal(self, other)

    def __hash__(self):
        return structural_hash(self)


@node
class Tile(_Value):
    """Sums that registers hold: vectors along the packed dimension, of rows x columns points, for so many channels."""

    vectors: int
    rows: int
    columns: int = 1
    channels: int = 1

    @property
    def points(self):
        return self.rows * self.columns

    @property
    def accumulators(self):
        return self.vectors * self.points * self.channels

    def __str__(self):
        sizes = (self.channels, "channels"), (self.rows, "rows"), (self.columns, "columns"), (self.vectors, "vectors")
        return " x ".join(f"{n} {what if n > 1 else what[:-1]}" for n, what in sizes if n > 1 or what == "vectors")


@node
class Plan(_Value):
    """The decision for a kernel; None or "" is left open, or nothing that the rule decides.

    rule        the rule that schedules it (rules/__init__.py)
    algorithm   which of the rule's ways
    arithmetic  how products are made (relax/arithmetic/)
    layout      how a packed operand lies
    tile        the sums in registers
    block       how many tiles, or rows, the outer loop takes at a time, which a cache holds
    turn        how many vectors, columns or panels an iteration inside of a block takes
    parts       into how many iterations long sums are cut
    order       the loops over tiles, outermost first
    threads     what threads share; ONE_THREAD: nothing
    stages      plans of the stages of a kernel that has several
    """

    rule: str
    algorithm: str = ""
    arithmetic: str = ""
    layout: str = ""
    tile: Tile | None = None
    block: int | None = None
    turn: int | None = None
    parts: int | None = None
    order: tuple = ()
    threads: str = ""
    stages: tuple = ()

    def decided(self):
        """{field: value} of what is not left open."""
        values = {name: getattr(self, name) for name in self._fields}
        return {name: value for name, value in values.items() if value not in (None, "", ())}

    def agrees(self, given):
        """Whether both decide alike what both decide."""
        own = self.decided()
        return all(own.get(name, value) == value for name, value in given.decided().items())

    def __str__(self):
        return in_words(self)


class Kernel:
    """The facts that the decision for a kernel depends on. Kernels are frozen dataclasses, equal ones with equal plans,
    whose `rule` is the name of the rule that schedules them."""

    def seen(self, target):
        """The target as the kernel's model sees it."""
        return target

    def candidates(self, target):
        """Yield Plans that fit, of which the first is taken among equals."""
        yield Plan(self.rule)

    def cost(self, plan, target):
        """Cycles that the kernel takes, or those of the part in which candidates differ."""
        return 0

    def priced(self, target):
        """Yield (cost, Plan) of each candidate."""
        return ((self.cost(plan, target), plan) for plan in self.candidates(target))

    def complete(self, plan, target):
        """The Plan with what follows from what its candidates decide."""
        return plan

    def waits(self, plan, target):
        """How many parallel loops a run has by a plan whose work threads share: after each they wait for one
        another."""
        return 1


def shared(target, work, what):
    """The loops that threads share in a kernel with so much work: `what`, or ONE_THREAD; "" if the work is unknown."""
    if not work:
        return ""
    return what if target.parallel and work >= target.cost("threads.least_work") else ONE_THREAD


@dataclass(frozen=True)
class Fixed(Kernel):
    """A kernel that its rule schedules in one way. work, what: as shared takes them; loops: parallel ones."""

    rule: str
    arithmetic: str = ""
    work: int = 0
    what: str = ""
    loops: int = 1

    def candidates(self, target):
        yield Plan(self.rule, arithmetic=self.arithmetic, threads=shared(target, self.work, self.what))

    def waits(self, plan, target):
        return self.loops


@dataclass(frozen=True)
class Stages(Kernel):
    """A kernel of several stages, each with a decision of its own. work, what: as shared takes them; loops: parallel
    ones."""

    rule: str
    kernels: tuple
    work: int = 0
    what: str = ""
    loops: int = 1

    def waits(self, plan, target):
        return self.loops


@dataclass(frozen=True)
class Match:
    """The result of a rule: the Kernel, and apply(plan, target), which schedules it; that may answer False, when it
    turns out not to fit."""

    kernel: Kernel
    apply: Callable


def one_after_another(rule):
    """The Match of a rule that leaves stages as they are."""
    return Match(Fixed(rule), lambda plan, target: None)


def candidates(kernel, target):
    """The Plans that a kernel may have."""
    return kernel.candidates(kernel.seen(target))


def cost(plan, kernel, target):
    """Cycles that a kernel takes by a plan."""
    return kernel.cost(plan, kernel.seen(target))


def choose(kernel, target, given=None):
    """The Plan with the least cost; None where there is no candidate. given: a Plan that decides a part of it, or all:
    no model overrules that. Raises PlanError where it decides a part, and no candidate agrees."""
    if isinstance(kernel, Stages):
        own = given.stages if given else ()
        _check_fields(given or Plan(kernel.rule), {"rule", "stages", "threads"}, range(len(kernel.kernels) + 1))
        stages = tuple(choose(k, target, g) for k, g in zip_longest(kernel.kernels, own))
        plan = given or Plan(kernel.rule)
        return plan.replace(stages=stages, threads=plan.threads or shared(target, kernel.work, kernel.what))
    if given is None:
        return _cheapest(kernel, target)
    machine, fields = kernel.seen(target), given.decided()
    fitting = [(cycles, plan) for cycles, plan in kernel.priced(machine) if plan.agrees(given)]
    if not fitting:  # none has all that is given, which may be a whole plan
        first = next(iter(kernel.candidates(machine)), None)
        shared_by_one = () if target.parallel else ("threads",)
        if first is None or not set(first.decided()) <= {*fields, *shared_by_one}:
            raise PlanError(f"no candidate for {kernel} has {given}: leave out of the plan what need not be so")
        fitting = [(0, first)]
    best = min(fitting, key=itemgetter(0))[1]
    whole = kernel.complete(best, machine)
    _check_fields(given, {*whole.decided(), "threads"}, (0, len(whole.stages)))
    return kernel.complete(best.replace(**fields), machine)


def _check_fields(given, own, stages):
    """Raises PlanError for what a Plan decides that its rule has no use for. stages: how many it may have."""
    unknown = sorted(set(given.decided()) - own)
    if unknown:
        raise PlanError(f"the rule {given.rule} does not decide {', '.join(unknown)} here")
    if len(given.stages) not in stages:
        raise PlanError(f"the rule {given.rule} has {max(stages)} stages here, not {len(given.stages)}")


@lru_cache(maxsize=4096)  # networks repeat their layers
def _cheapest(kernel, target):
    machine = kernel.seen(target)
    _, best = min(kernel.priced(machine), key=itemgetter(0), default=(0, None))
    return best and kernel.complete(best, machine)
