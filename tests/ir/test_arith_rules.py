"""Every rewrite rule of ir/arith, one by one: random instances of its own pattern make it fire, and whatever it says is
compared with brute force, where it says it and in the simplified expression, negative operands included."""
import random
import sys
import types
from collections import Counter

import arith_brute
import pytest
from arith_brute import VARS, Undefined, assignments, evaluate, imm

from ingot.ir import tir
from ingot.ir.arith import (Analyzer, canonical, const_int_bound, eval_range, floor_rules, modular, relax, simplify,
                            symbolic_rules, trunc_rules)
from ingot.ir.arith.int_set import limits_of
from ingot.ir.expr import (EQ, GE, GT, LE, LT, NE, Add, And, Call, Cast, CompareExpr, Div, FloatImm, FloorDiv,
                           FloorMod, IntImm, Let, Max, Min, Mod, Mul, Not, Or, Range, Select, Var)

X, Y, Z = VARS
N, M = Var("n"), Var("m")
W, F, U = Var("w", "int64"), Var("f", "float32"), Var("u", "uint8")
V, L, DATA = Var("v"), Var("l"), tir.decl_buffer((64,), "int32", "data")
K = Var("k")  # nothing is ever known of it
S = tir.SizeVar("s")
NO_RULES = ("public_bound", "private_bound", "open_interval", "__repr__")
TURNS, TRACED, POINTS = 20, 8, 150  # instances of each pattern; how many note the lines they reach; points tried


class Instance:
    """One drawn question: an analyzer that knows some of the domains, and the points to try."""

    def __init__(self, rng, ranges=None, positive=()):
        self.rng, self.an = rng, Analyzer()
        self.domains = {}
        for v in (X, Y, Z, N, M):
            start = 1 if v in positive else rng.choice([0, 0, 0, 1, -1, -3, -6])
            self.domains[v] = range(start, start + rng.choice([1, 2, 3, 4]))
        self.ranges = {v: Range(imm(r.start), imm(len(r))) for v, r in self.domains.items() if rng.random() < 0.8}
        self.ranges.update(ranges or {})
        for v, r in self.ranges.items():
            self.an.bind(v, r)
        points, self.known = list(self._points(list(ranges or ()))), ()
        self.points = rng.sample(points, min(len(points), POINTS))

    def _points(self, symbolic):
        for env in assignments({v: r for v, r in self.domains.items() if v not in symbolic}):
            envs = [{**env, W: env.get(X, 0) * 3 - 2, F: float(env.get(Y, 0)), U: env.get(Z, 0) % 256,
                     K: env.get(Z, 0) * 3 - 2, V: env.get(X, 0) - 1, L: env.get(Y, 0) * 5,
                     S: abs(env.get(Z, 0))}]
            for v in symbolic:
                r = self.ranges[v]
                envs = [{**e, v: t} for e in envs for t in range(
                    evaluate(r.min, e), evaluate(r.min, e) + evaluate(r.extent, e))]
            yield from envs

    def holding(self, conditions):
        self.known = conditions
        self.points = [env for env in self.points if all(_value(c, env) for c in conditions)]
        return self


def _value(e, env):
    """The value of an expression or a Linear; None where a divisor is 0."""
    try:
        if hasattr(e, "terms"):
            return sum(k * evaluate(atom.expr, env) for atom, k in e.terms.items()) + e.const
        return evaluate(e, env)
    except Undefined:
        return None


def compare(points, wanted, got, holds=lambda a, b: a == b):
    for env in points:
        try:
            a = wanted(env)
        except (Undefined, TypeError, ZeroDivisionError):  # TypeError: of a part that has no value
            continue
        if a is not None:
            b = got(env)
            assert b is not None and holds(a, b), (env, a, b)


# ---------------------------------------------------------------- what a rule of each table must satisfy

def of_division(combine):
    def check(points, args, found):
        num, c = args[1], args[2]
        compare(points, lambda env: combine(_value(num, env), c), lambda env: _value(found, env))
    return check


def of_truncated(apply):
    def check(points, args, found):
        _, num, den, _ = args
        compare(points, lambda env: apply(_value(num, env), _value(den, env)), lambda env: _value(found, env))
    return check


def of_rest(points, args, found):
    _, rest, den, _, kind, _ = args
    apply = (lambda a, b: a // b) if kind == floor_rules.DIV else (lambda a, b: a % b)
    compare(points, lambda env: apply(_value(rest, env), _value(den, env)), lambda env: _value(found, env))


def of_join(points, args, found):
    compare(points, lambda env: _value(args[1], env), lambda env: _value(found, env))


def of_bound(points, args, found):
    compare(points, lambda env: evaluate(args[1].expr, env), lambda env: found, lambda a, b: b[0] <= a <= b[1])


def of_modular(points, args, found):
    def within(a, b):
        return (a - b.base) % b.coeff == 0 if b.coeff else a == b.base
    compare(points, lambda env: evaluate(args[1].expr, env), lambda env: found, within)


def of_relaxed(points, args, found):
    _, atom, upper = args
    compare(points, lambda env: evaluate(atom.expr, env), lambda env: _value(found, env),
            (lambda a, b: a <= b) if upper else (lambda a, b: a >= b))


def of_proof(points, args, found):
    compare(points if found else (), lambda env: _value(args[1], env), lambda env: 0, lambda a, b: a >= b)


def of_rewrite(points, args, found):
    compare(points, lambda env: _value(args[-1], env), lambda env: _value(found, env))


TABLES = [(floor_rules, "DIV_RULES", of_division(lambda a, c: a // c)),
          (floor_rules, "MOD_RULES", of_division(lambda a, c: a % c)), (floor_rules, "JOIN_RULES", of_join),
          (trunc_rules, "DIV_RULES", of_truncated(lambda a, b: arith_brute.APPLY[Div](a, b))),
          (trunc_rules, "MOD_RULES", of_truncated(lambda a, b: arith_brute.APPLY[Mod](a, b))),
          (symbolic_rules, "REST_RULES", of_rest), (const_int_bound, "RULES", of_bound),
          (modular, "RULES", of_modular), (relax, "RULES", of_relaxed), (relax, "PROOFS", of_proof),
          (simplify, "RULES", of_rewrite)]


def row_name(module, key, rule):
    return f"{module.__name__.rsplit('.', 1)[1]}.{rule.__name__}" + (f"[{key}]" if isinstance(key, str) else "")


def rows(table):
    """(key, rule) of a table: a tuple of rules, or a dict of rules or tuples of rules."""
    for key, value in table.items() if isinstance(table, dict) else [(None, table)]:
        for rule in value if isinstance(value, tuple) else (value,):
            yield key, rule


class Watch:
    """Counts how often each rule gives an answer, and checks it at the points of the instance at hand."""

    def __init__(self, monkeypatch):
        self.fired, self.instance = Counter(), None
        for module, name, check in TABLES:
            monkeypatch.setattr(module, name, self._wrapped(module, getattr(module, name), check))

    def _wrapped(self, module, table, check):
        if isinstance(table, tuple):
            return tuple(self._row(row_name(module, None, rule), rule, check) for rule in table)
        return {key: tuple(self._row(row_name(module, key, rule), rule, check) for rule in value)
                if isinstance(value, tuple) else self._row(row_name(module, key, value), value, check)
                for key, value in table.items()}

    def _row(self, name, rule, check):
        def watched(*args):
            found = rule(*args)
            if found is not None and found is not False and not (name.startswith("simplify") and found is args[-1]):
                self.fired[name] += 1
                an = args[0] if isinstance(args[0], Analyzer) else args[0].an
                if self.instance and an is self.instance.an and (an.nonzero, an.holding) == self.base:
                    check([env for env in self.instance.points if all(self._not_refuted(f, env) for f in an.facts)],
                          args, found)
            return found
        return watched

    @staticmethod
    def _not_refuted(fact, env):
        value = _value(fact, env)
        return value is not None and value >= 0

    def ask(self, instance, e, relaxed=()):
        """Simplify `e` and compare all its analyses with brute force."""
        self.instance, self.base = instance, ({}, set())
        an, points = instance.an, instance.points
        with an.constraint_scope(*instance.known):
            self.base = an.nonzero, an.holding
            done = an.simplify(e)
            compare(points, lambda env: _value(e, env), lambda env: _value(done, env))
            assert done.dtype == e.dtype
            if isinstance(e, CompareExpr) and an.can_prove(e):
                compare(points, lambda env: _value(e, env), lambda env: True)
            low, high = an.interval(e)
            compare(points, lambda env: _value(e, env), lambda env: (low, high),
                    lambda a, b: (low is None or low <= a) and (high is None or a <= high))
            if e.dtype.is_int:
                known = an.modular_set(e)
                compare(points, lambda env: _value(e, env), lambda env: known,
                        lambda a, b: (a - b.base) % b.coeff == 0 if b.coeff else a == b.base)
        if not relaxed:
            return
        ranges = {v: instance.ranges[v] for v in relaxed}
        span = eval_range(e, ranges, an) or (None, None)
        blank = Analyzer()  # knows the ranges from its question alone
        self.instance = None
        form, limits = blank.canonical.linear(e), limits_of(blank, ranges)
        ends = [relax.relax(blank, form, upper, limits) for upper in (False, True)]
        for found in (span, ends):
            for end, holds in zip(found, (lambda a, b: a >= b, lambda a, b: a <= b)):
                if end is not None:
                    compare(points, lambda env: _value(e, env), lambda env: _value(end, env), holds)  # noqa: B023


# ---------------------------------------------------------------- instances, by rule

def some(rng, *choices):
    return rng.choice(choices)


def total(rng, *scales):
    """A sum of scaled variables plus a constant."""
    e = imm(rng.randint(-9, 9))
    for v, k in zip(rng.sample([X, Y, Z, N], len(scales)), scales):
        e = e + v * k
    return e


def floor(rng):
    return rng.choice([FloorDiv, FloorMod])


def either(rng, a, b):
    return rng.choice([EQ, NE, LT, LE, GT, GE])(a, b)


def bits(rng):
    op = rng.choice(["tir.shift_right", "tir.bitwise_and", "tir.shift_left"])
    return lambda a, b: Call("int32", op, (a, b))


def divisor(rng):
    return rng.choice([1, 2, 3, 4, 6, 8, -1, -2, -3, -4])


SPLIT = {X: Range(imm(0), N), Y: Range(imm(0), M)}  # n and m may be empty ranges
PATTERNS = {
    "by one": lambda r: floor(r)(total(r, 1, 2), imm(some(r, 1, -1))),
    "of constants": lambda r: some(r, FloorDiv, FloorMod, Div, Mod)(imm(r.randint(-9, 9)), imm(divisor(r))),
    "multiples": lambda r: floor(r)(total(r, 6, some(r, 1, 4, 7)), imm(some(r, 2, 3, 6, -3))),
    "block": lambda r: floor(r)(total(r, 1), imm(some(r, 16, 32, -16))),
    "inner": lambda r: floor(r)(X * 4 + Y + imm(r.randint(-4, 4)), imm(some(r, 8, 12, -8))),
    "nested": lambda r: floor(r)(FloorDiv(total(r, 1, 1), imm(some(r, 2, 3))) + r.randint(-2, 2), imm(divisor(r))),
    "of remainder": lambda r: floor(r)(FloorMod(K + X, imm(12)), imm(some(r, 2, 3, 4, 5, -4))),
    "negative divisor": lambda r: floor(r)(some(r, X + Y, K), Min(Z, imm(-1)) - some(r, 0, 2)),
    "opened": lambda r: floor(r)(FloorMod(total(r, 1), imm(4)) * some(r, 1, 2, 3, -2) + Y, imm(some(r, 2, 4, 8))),
    "parts within": lambda r: (lambda e, d, k, c: FloorMod(
        FloorMod(e, imm(d)) * k + FloorDiv(e, imm(d)) * (k * d % c) + Y, imm(c)))(
            some(r, K, K * 3 + X, FloorDiv(K, imm(5))), some(r, 3, 5, 7, 11), some(r, 1, 2, 3), some(r, 4, 8)),
    "parts within, reduced": lambda r: (lambda d, c: FloorMod(
        FloorMod(K * (d + 1) + X, imm(d)) + FloorDiv(K * (d + 1) + X, imm(d)) * (d % c), imm(c)))(
            some(r, 3, 5, 7, 11), some(r, 4, 8)),
    "known set": lambda r: FloorMod(Min(X * 4 + 1, Y * 8 + 5), imm(some(r, 2, 4))),
    "join": lambda r: (lambda e, c, k: FloorMod(e, imm(c)) * k + FloorDiv(e, imm(c)) * (c * k) + Y)(
        total(r, 1, 1), divisor(r), some(r, 1, 2, -3)),
    "join reduced": lambda r: (lambda c, k: FloorMod(N * (c + 1) + X, imm(c)) * k
                               + FloorDiv(N * (c + 1) + X, imm(c)) * (c * k) + Y)(some(r, 2, 3, -4), some(r, 1, 2, -3)),
    "join remainders": lambda r: (lambda e, d, m, k: FloorMod(e, imm(d)) * k + FloorMod(FloorDiv(e, imm(d)), imm(m)) * (
        d * k) + Y)(some(r, K, K * 4 + X, FloorDiv(K, imm(5))), some(r, 2, 3, 38), some(r, 2, 5), some(r, 1, 2, -3)),
    "quotient left": lambda r: (lambda e, c, k: e * k - FloorMod(e, imm(c)) * k)(N + 1, divisor(r), some(r, 1, 2, -3)),
    "remainder left": lambda r: (lambda c, k: N * k - FloorDiv(N, imm(c)) * (c * k))(divisor(r), some(r, 1, 2, -3)),
    "join symbolic": lambda r: (lambda k: FloorMod(X, N) * k + N * FloorDiv(X, N) * k)(some(r, 1, 2, -3)),
    "truncated": lambda r: some(r, Div, Mod)(total(r, some(r, 1, -1, 4)), imm(divisor(r))),
    "truncated common": lambda r: some(r, Div, Mod)(
        K * some(r, 4, 8, -6) + some(r, 0, 2, 4), imm(some(r, 2, 4, 6, -2, -4))),
    "truncated small": lambda r: some(r, Div, Mod)(Mod(K, imm(some(r, 3, 4))), imm(some(r, 4, 7, -8))),
    "truncated nested": lambda r: some(r, Div, Mod)(Div(K + some(r, 0, 1), imm(some(r, 2, 3, -2))), imm(some(r, 2, 3))),
    "truncated product": lambda r: some(r, Div, Mod)(K * some(r, X, N) * some(r, 1, 4), K * some(r, imm(2), Y, Z * 2)),
    "join truncated": lambda r: (lambda d, k: Mod(K + X, imm(d)) * k + Div(K + X, imm(d)) * (d * k) + Y)(
        some(r, 3, 4), some(r, 1, 2, -3)),
    "bits": lambda r: bits(r)(some(r, K * 4 + 2, Mod(K, imm(5)), Z * 8 + 4, X),
                              some(r, imm(1), imm(2), imm(3), imm(4))),
    "bits of sums": lambda r: bits(r)(X * 3 - 1, some(r, Y, K, Z)),
    "bits by any": lambda r: Call("int32", some(r, "tir.shift_right", "tir.shift_left"), (some(r, X, K), K)),
    "let in place": lambda r: Let(V, some(r, K * 10 + 4, X * 4), V * 2 + some(r, 0, 1)),
    "divided across 0": lambda r: some(r, FloorDiv, FloorMod, Div, Mod)(some(r, X * 3 - 4, K, Y), some(
        r, Z - 1, N - 2, M, K, X * 0 + M - 1)),
    "ceiling of a logarithm": lambda r: (lambda n: Cast("int32", Call("float64", "tir.ceil", (Call(
        "float64", "tir.log2", (n,)),))))(some(r, FloatImm("float64", some(r, 14.0, 0.5)), Cast("float64", some(
            r, X + some(r, 8, 1025), K)), F)),
    "cast through float": lambda r: Cast("int32", Cast("float32", some(r, total(r, 1, 2), K))),
    "truncated symbolic": lambda r: some(r, Div, Mod)(some(r, X, -X, Y), some(r, N, N * -1, M)),
    "shared factor": lambda r: floor(r)(X * N * some(r, 1, 2), some(r, Y * N, N * 4, N * -6)),
    "polynomial": lambda r: floor(r)(N * M + N * 3 + some(r, imm(0), Y, X * N), some(r, N, M + 3, N * 2)),
    "rest within": lambda r: floor(r)(Z * N + X, some(r, N, N * M, N * 4, N * -4)),
    "inner of product": lambda r: floor(r)(Z * N * some(r, 1, 2) + X, some(r, N * M, N * 4, N * -4, N * 2)),
    "whole product": lambda r: floor(r)((X * M + Y) * some(r, 1, 2) + some(r, 0, 1), some(r, M, M * 2, M * N)),
    "minimum": lambda r: some(r, Min, Max)(total(r, 1), some(r, total(r, 1), X + 3, imm(2), Min(Y, X), Max(Y, N))),
    "square": lambda r: X * X + some(r, X * Y, Y * Y * -2, Z * Z * Z),
    "long product": lambda r: (X + Y + Z + N + M + 1) * (X - Y + Z - N + M + 2) * (X + Y * 2 + Z - N - M - 3) * X,
    "left factor": lambda r: Mul(imm(some(r, 2, -3)), X + 1) + FloorDiv(X, Max(N, imm(1))),
    "too large": lambda r: some(r, X * 65536 * 65536 + 1, FloorDiv(FloorDiv(N, imm(65536)), imm(65536)) - X),
    "compare too large": lambda r: either(r, X * 65536 * 65536, Y + some(r, 0, 1)),
    "compare choice": lambda r: either(r, some(r, Min, Max)(K, M + 3) * some(r, 1, -1), some(r, K, K, -K)),
    "compare shifted": lambda r: some(r, EQ, NE)(K + r.randint(-3, 3), X + r.randint(-3, 3)),
    "compare multiples": lambda r: some(r, GE, GT, LT)(FloorMod(N * 4 + 2, imm(8)), imm(some(r, 1, 2))),
    "odd remainder": lambda r: FloorDiv(FloorMod(N, imm(12)), imm(5)) + FloorMod(N + M, imm(1)),
    "impure call": lambda r: Call("int32", "tir.call_extern", (imm(0),)) - FloorMod(X, imm(2)),
    "call": lambda r: Select(either(r, X, Y), Call("float32", "tir.fabs", (F * (X + Y - X),)),
                             Call("float32", "tir.fabs", (F * some(r, Y, Y, Z),))),
    "choice": lambda r: some(r, Min, Max)(X * 4, Y * 4 + some(r, 1, 4)) * some(r, 1, -1) + r.randint(-20, 20),
    "select": lambda r: Select(either(r, X, total(r, 1)), total(r, 1), some(r, X * 1, total(r, 2))),
    "let": lambda r: Let(V, some(r, DATA[X] + Y - Y, X + 0), Select(either(r, V + 1 - 0, V), V * 2, V - V + X)),
    "let of data": lambda r: Let(L, DATA[X + 0] - Y, either(r, L * some(r, 2, 3) + X - X, L + 1)),
    "sum of data": lambda r: either(r, DATA[X] * some(r, 1, 3) + some(r, Y, DATA[Y + 0]), DATA[X] + r.randint(-2, 2)),
    "data within bounds": lambda r: floor(r)(FloorMod(DATA[X], imm(8)) + X * 8, imm(some(r, 4, 8))),
    "product of data": lambda r: Max(DATA[X] * DATA[Y] + Z, DATA[imm(7)] * 65536 * some(r, 3, 65536) - Z + Z),
    "data in wider type": lambda r: Cast("int64", DATA[X] * some(r, 2, 4) + Y - Y) * 2 + W,
    "select decided": lambda r: Select(either(r, X, imm(some(r, 20, -20))), Y, Z),
    "select same": lambda r: Select(either(r, X, Y), N + Z, Z + N),
    "float select": lambda r: Select(either(r, X, imm(some(r, 2, 30))), F, some(r, F, FloatImm("float32", 1.5))),
    "compare": lambda r: either(r, total(r, 1, some(r, 1, 2, -2)), total(r, 1)),
    "compare scaled": lambda r: either(r, X * 4 + N * some(r, 4, 8), imm(r.randint(-20, 20)) - Y * some(r, 0, 4)),
    "compare offset": lambda r: either(r, X + r.randint(-3, 3), Y + N + r.randint(-3, 3)),
    "compare parity": lambda r: some(r, EQ, NE)(X * 4 + 1, Y * some(r, 2, 4) + some(r, 0, 1)),
    "compare constants": lambda r: either(r, IntImm("uint8", r.randint(0, 3)), IntImm("uint8", r.randint(0, 3))),
    "compare narrow": lambda r: either(r, Add(U, IntImm("uint8", 250)), IntImm("uint8", 3)),
    "compare with itself": lambda r: either(r, U, U),
    "scalable": lambda r: some(r, Min, Max)(Call("int32", "tir.vscale", ()) * some(r, 1, 3), imm(some(r, 0, 2, 9))),
    "negative symbolic divisor": lambda r: floor(r)(total(r, 1), N * some(r, -1, -2)),
    "equal to itself": lambda r: some(r, EQ, NE, LE, LT)(Add(X, Y), Add(Y, X)),
    "and": lambda r: And(And(either(r, X, imm(2)), either(r, X, imm(3))), some(r, either(r, X, Y), either(r, Z, Y))),
    "and of floats": lambda r: And(And(LT(F, FloatImm("float32", 1.0)), either(r, X, imm(2))), X < 5),
    "and decided": lambda r: And(either(r, X, Y), either(r, N, imm(some(r, 30, -30)))),
    "or": lambda r: Or(Or(either(r, X, imm(2)), either(r, X, imm(2))), some(r, either(r, Z, Y), X < 40)),
    "double negation": lambda r: Not(Not(some(r, LT(F, FloatImm("float32", 0.5)), And(X < Y, Y < Z)))),
    "not": lambda r: Not(some(r, either(r, X, Y), Not(either(r, X, Y)), And(X < Y, Y < Z), Not(LT(F, F)), X < 40)),
    "likely": lambda r: Call("bool", "tir.likely", (either(r, X, some(r, imm(30), Y)),)),
    "guarded": lambda r: Call("int32", "tir.if_then_else", (
        either(r, X, some(r, imm(1), imm(30))), Min(X, imm(1)) + Y, some(r, Max(X, imm(1)), Y + Min(imm(1), X)))),
    "cast": lambda r: Cast("int32", Cast(some(r, "int8", "uint8", "int64"), total(r, some(r, 1, 40)))),
    "cast of bool": lambda r: Cast(some(r, "int32", "int64"), some(r, X < Y, IntImm("uint8", 7), IntImm("bool", 1))),
    "cast wide": lambda r: Cast("int64", total(r, 1)) * 4 + W + Cast("int64", Cast("int32", W + 1)),
    "cast narrow": lambda r: Cast("int8", some(r, imm(r.randint(-200, 200)), total(r, 1))),
    "wide product": lambda r: W * Cast("int64", X) + W * some(r, Cast("int64", Y), W),
    "sum in floats": lambda r: Select(either(r, X + Y - X, Z), F, Cast("float32", X + Y - X)),
}
PATTERNS.update({
    "by factor": lambda r: either(r, S * Max(X, imm(1)) * some(r, imm(1), S), S * some(r, imm(1), S, imm(-1))),
    "by negative factor": lambda r: either(r, Min(X, imm(0)) * S, Min(X, imm(0)) * Max(Y, imm(1)) * S),
    "by factor of nothing": lambda r: either(r, K * K * K * S, K * K * S),
    "by division": lambda r: (lambda d: either(r, FloorMod(K, d), d * some(r, 1, 2)))(Max(X, imm(1))),
    "by multiple": lambda r: (lambda d: either(r, FloorDiv(K, d) * d * some(r, 1, -1, 2) + S * K, K * some(
        r, 1, -1, 2) + S * K - some(r, d, d, imm(0))))(Max(X, imm(1)) * some(r, 1, 1, 4)),
    "by size": lambda r: either(r, S * 3 + 1, imm(some(r, 0, 1, 2))),
})
SYMBOLIC = {"join symbolic", "rest within", "inner of product", "whole product", "truncated symbolic"}
RELAXED = {
    "relax sum": lambda r: X * some(r, 1, -2) + Y * Z + Z * some(r, 1, 3),
    "relax quotient": lambda r: FloorDiv(total(r, 4, 1), imm(some(r, 2, 4, -4))) * some(r, 1, -1),
    "relax remainder": lambda r: FloorMod(Z * 8 + X, imm(some(r, 4, 8, -8))) + FloorMod(X * 9 + Y, N + 9),
    "relax choice": lambda r: some(r, Min, Max)(X * 2 + Z, some(r, Y, -Y, X * N)) * some(r, 1, -2),
    "relax select": lambda r: Select(either(r, X, Y), X * 2 + Z, some(r, Y, X * N) - Z) * some(r, 1, -1),
    "relax product in choice": lambda r: some(r, Min, Max)(X * K, some(r, Y, X * 2 - Y * K)) + X,
    "relax long": lambda r: sum((FloorDiv(K + X, imm(c)) for c in range(2, 52)), start=Y),
    "relax unknown": lambda r: X + FloorDiv(Y, K),
    "relax remainder of sum": lambda r: FloorMod(X * 9 + Y * 5, Max(K, imm(4))),
    "relax divided": lambda r: FloorDiv(Z, Y) + X,
    "relax square": lambda r: X * X * some(r, 1, -1) + Y,
}
UNDER = {  # condition, question
    "by fact": lambda r: (X + Y < N, either(r, X + Y + some(r, 0, 1), N)),
    "by scaled fact": lambda r: (X * 4 + Y < N * 4, either(r, X, N)),
    "by bounds": lambda r: (And(X >= 1, X * 3 < 7), either(r, X, imm(r.randint(-1, 4)))),
    "by congruence": lambda r: (EQ(FloorMod(X + some(r, 0, 1), imm(4)), imm(some(r, 0, 1))), FloorMod(X, imm(2))),
    "by truncated congruences": lambda r: (And(EQ(Mod(K, imm(some(r, 3, 4))), imm(1)), EQ(
        FloorMod(K, imm(some(r, 4, 6, 2))), imm(some(r, 0, 1)))), FloorMod(K, imm(some(r, 2, 12)))),
    "by congruences of nothing": lambda r: (And(EQ(FloorMod(K, imm(4)), imm(1)), EQ(FloorMod(K, imm(6)), imm(
        some(r, 0, 4)))), FloorMod(K, imm(3))),
    "by inequality": lambda r: (NE(X, Y), some(r, EQ, NE)(Y, X)),
    "by itself": lambda r: ((lambda c: (c, c))(Or(X < Y, Z < N))),
    "by no conjunction": lambda r: (lambda c: (Not(c), some(r, c, Not(c))))(And(X < Y, Z < N)),
    "by itself in floats": lambda r: (lambda c: (c, c))(some(
        r, LT(F, FloatImm("float32", 0.5)), LT(Call("float32", "tir.fabs", (F,)), FloatImm("float32", 1.5)))),
    "by inequality of an equal": lambda r: (And(EQ(X, K), NE(K, N)), some(r, EQ, NE)(X, N)),
    "by congruence of a negative": lambda r: (EQ(FloorMod(imm(some(r, 0, 3)) - K, imm(some(r, 4, -4))), imm(0)),
                                              FloorMod(K, imm(some(r, 2, 4)))),
    "by no equality": lambda r: (NE(X, Y + N), some(r, EQ, NE)(X, Y + N)),
    "by equality": lambda r: (EQ(X, Y + K), some(r, EQ, NE, LE)(K, X - Y + some(r, 0, 0, 1))),
    "by steps": lambda r: (And(EQ(FloorMod(K, imm(4)), imm(1)), K >= some(r, -2, -3)), K >= 1),
    "by negation": lambda r: (Not(Or(X < Y, Z < N)), either(r, X, Y)),
    "guarded choice": lambda r: (X < Y, Min(X, Y) + Max(X, Y)),
    "by likely": lambda r: (Call("bool", "tir.likely", (X < Y,)), either(r, X, Y)),
}


def run_all(watch, trace):
    for name, draw in {**PATTERNS, **RELAXED, **UNDER}.items():
        for turn in range(TURNS if name != "relax long" else 2):
            sys.settrace(trace if turn < TRACED else None)
            rng = random.Random(f"{name} {turn}")
            symbolic = {v: SPLIT[v] for v in (X, Y)} if name in SYMBOLIC and turn % 2 else None
            instance = Instance(rng, symbolic)
            drawn = draw(rng)
            if name in UNDER:
                instance, drawn = instance.holding(drawn[:1]), drawn[1]
            relaxed = [v for v in (X, Y) if v in instance.ranges] if name in RELAXED else ()
            watch.ask(instance, drawn, relaxed)


class Lines:
    """The lines of the rule modules that no function call has reached yet."""

    def __init__(self, modules):
        self.left = {}  # code object -> lines
        for module in modules:
            for value in vars(module).values():
                if isinstance(value, type) and value.__module__ == module.__name__:
                    for member in vars(value).values():
                        self._add(getattr(member, "__func__", member), module)
                self._add(value, module)

    def _add(self, function, module):
        if isinstance(function, types.FunctionType) and function.__module__ == module.__name__ and (
                function.__name__ not in NO_RULES):
            code = getattr(function, "__wrapped__", function).__code__
            self.left[code] = {line for _, _, line in code.co_lines() if line} - {code.co_firstlineno}

    def start(self, frame, event, arg):
        return self.step if self.left.get(frame.f_code) else None

    def step(self, frame, event, arg):
        left = self.left[frame.f_code]
        left.discard(frame.f_lineno)
        return self.step if left else None

    def missing(self):
        return sorted(f"{code.co_qualname}:{line - code.co_firstlineno}" for code, lines in self.left.items()
                      for line in lines)


@pytest.fixture(scope="module")
def watched():
    patch, before = pytest.MonkeyPatch(), sys.gettrace()
    watch = Watch(patch)
    watch.lines = Lines([canonical, const_int_bound, floor_rules, modular, relax, simplify,
                         symbolic_rules, trunc_rules])
    try:
        run_all(watch, watch.lines.start)
    finally:
        sys.settrace(before)
        patch.undo()
    return watch


ROWS = [row_name(module, key, rule) for module, name, _ in TABLES for key, rule in rows(getattr(module, name))]


@pytest.mark.parametrize("row", sorted(set(ROWS)))
def test_every_rule_fires_and_holds(watched, row):
    assert watched.fired[row] >= 3, f"no instance here makes {row} answer; add a pattern for it"


def test_every_line_of_the_rules_is_checked(watched):
    """Branches inside functions are rules as well: each is reached by an instance compared with brute force."""
    assert "\n".join(watched.lines.missing()) == ""
