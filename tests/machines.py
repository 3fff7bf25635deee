"""Targets that are made up, for tests of rules and models: a vector unit, caches and features, by keyword."""
from functools import lru_cache

from ingot.ir.costs import BASE, ESTIMATE, Cost, Table
from ingot.ir.schedule import plan
from ingot.ir.target import FEATURES, Target, Threads, Vector


def machine(lanes=16, registers=32, parallel=True, accumulators=None, **given):
    """A Target with 1 MB of L2. given: features (by_element=True) and costs (l1_bytes=4096, or costs={name: value})."""
    isa = {next(iter(FEATURES[name])) for name in FEATURES if given.pop(name, False)}
    target = Target("made_up", isa=frozenset(isa), vectors=Table({"float32": Vector(lanes, registers, accumulators)}),
                    threads=Threads() if parallel else Threads(most=1))
    return with_costs(target, **{"l2_bytes": 1 << 20, **given})


def with_costs(target, costs=None, **values):
    """A Target with other costs."""
    return target.derive(target.name, costs={name: Cost(value, BASE[name].unit, ESTIMATE)
                                             for name, value in {**values, **(costs or {})}.items()})


def set_costs(monkeypatch, costs):
    """All targets have other costs for the time of a test, for which no plan is known."""
    before = Target.cost
    monkeypatch.setattr(plan, "_cheapest", lru_cache(maxsize=None)(plan._cheapest.__wrapped__))
    monkeypatch.setattr(Target, "cost", lambda target, name: costs[name] if name in costs else before(target, name))
