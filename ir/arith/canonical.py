"""Expressions to normal form: `Canonical.linear(e)` is the Linear of an int32 or int64 expression.

Arithmetic on loop variables and dimensions is taken not to overflow (as in C), so it is arithmetic on integers, and
widening casts change nothing. What buffers hold may be any number, and arithmetic on it wraps around: a sum or product
of it is opened by other sums and products, which wrap around alike, and is one opaque atom to all else, unless bounds
say that it fits its type. Narrower and unsigned types wrap: their arithmetic stays closed, as opaque atoms.
"""
from __future__ import annotations

from ..dtype import DataType
from ..expr import (Add, Call, Cast, Div, FloatImm, FloorDiv, FloorMod, IntImm, Max, Min, Mod, Mul, PrimExpr, Select,
                    Sub, Var, free_vars)
from ..node import Node, collect
from ..upper import upper
from . import floor_rules, trunc_rules
from .const_int_bound import linear_bound
from .linear import (DIV, MAX, MIN, MOD, OPAQUE, PRODUCT, SELECT, VAR, Atom, DoesNotFit, Linear, accumulate, combine,
                     constant, factors, product_expr, render, scaled, single_atom)

INT32, INT64 = DataType("int32"), DataType("int64")
INDEX_TYPES = (INT32, INT64)
MOST_PRODUCT_TERMS = 64  # a product of sums with more terms than this stays a product


class Canonical:
    """Builds normal forms for one analyzer `an`, which holds what is known and the caches."""

    def __init__(self, an):
        self.an = an
        self.atoms = {}  # key -> Atom; keys do not depend on what is known, so this outlives scopes
        self.rules = {Mul: self._mul, FloorDiv: self._floordiv, FloorMod: self._floormod, Div: self._truncdiv,
                      Mod: self._truncmod, Min: self._choice, Max: self._choice, Cast: self._cast,
                      Select: self._select}

    # ------------------------------------------------------------ sums

    def linear(self, e):
        """The Linear of an expression of an index type."""
        found = self.an.forms.get(e)
        if found is None:
            if self.an.acts(e):
                return self.opaque_atom(e)
            found = self.an.forms[e] = self._in_type(self.wrapped(e), e)
        return found

    def wrapped(self, e):
        """The Linear that e is modulo the numbers of its type."""
        terms = {}
        const = self._collect(e, 1, terms)
        return self.joined(terms, const)

    def _in_type(self, form, e):
        """`form`, which e is where nothing wraps around, as one atom where that may happen."""
        if not any(atom.loaded for atom in form.terms):
            return form
        (least, greatest), dtype = linear_bound(self.an, form), e.dtype
        if dtype.min_value() <= least and greatest <= dtype.max_value():
            return form
        try:
            expr = render(form, dtype)
        except DoesNotFit:
            expr = e
        return Linear({self.intern(("sum", dtype, form.key), OPAQUE, dtype, (form,), lambda: expr): 1}, 0)

    def joined(self, terms, const):
        """A Linear of these terms, after joining divisions with their remainders."""
        if 0 in terms.values():
            terms = {a: k for a, k in terms.items() if k}
        for atom in terms:
            if atom.kind == DIV or atom.kind == MOD or type(atom.expr) is Mod:
                return floor_rules.join_divisions(self.an, terms, const)
        return Linear(terms, const)

    def add(self, a, b, scale=1):
        """a + scale * b in normal form."""
        form = combine(a, b, scale)
        return self.joined(form.terms, form.const) if a.terms and b.terms else form

    def _collect(self, e, scale, terms):
        """Add scale * e to terms; returns the constant part."""
        kind = type(e)
        if kind is Var:
            replacement = self.an.replaced.get(e)
            if replacement is None:
                atom = self.atoms.get(e) or self._new_var(e)
                terms[atom] = terms.get(atom, 0) + scale
                return 0
            form = replacement
        elif kind is IntImm:
            return scale * e.value
        elif kind is Add:
            return self._collect(e.a, scale, terms) + self._collect(e.b, scale, terms)
        elif kind is Sub:
            return self._collect(e.a, scale, terms) + self._collect(e.b, -scale, terms)
        elif kind is Mul and type(e.b) is IntImm:
            return self._collect(e.a, scale * e.b.value, terms)
        elif kind is Mul and type(e.a) is IntImm:
            return self._collect(e.b, scale * e.a.value, terms)
        else:
            form = self.an.opened.get(e)
            if form is None:
                form = self.an.opened[e] = self.rules.get(kind, self._opaque)(e)
        for atom, k in form.terms.items():
            terms[atom] = terms.get(atom, 0) + k * scale
        return form.const * scale

    def _new_var(self, v):
        atom = self.atoms[v] = Atom(VAR, v, v.dtype, (), frozenset((v,)), len(self.atoms), v in self.an.loaded)
        return atom

    # ------------------------------------------------------------ atoms

    def intern(self, key, kind, dtype, parts, make):
        """The atom of this key, made from `make()` when it is new."""
        atom = self.atoms.get(key)
        if atom is None:
            free = frozenset().union(*(_vars_of(p) for p in parts))
            loaded = any(self.is_loaded(p) for p in parts)
            atom = self.atoms[key] = Atom(kind, make(), dtype, parts, free, len(self.atoms), loaded)
        return atom

    def is_loaded(self, part):
        """Whether an atom, a Linear or an expression depends on what a buffer holds."""
        if isinstance(part, Linear):
            return any(atom.loaded for atom in part.terms)
        if isinstance(part, Atom):
            return part.loaded
        return any(type(n).__name__ == "BufferLoad" or n in self.an.loaded for n in collect(part, PrimExpr))

    def division(self, kind, num, den, dtype):
        """The DIV or MOD atom num / den as a Linear."""
        build = FloorDiv if kind == DIV else FloorMod
        atom = self.intern((kind, dtype, num.key, den.key), kind, dtype, (num, den),
                           lambda: build(render(num, dtype), render(den, dtype)))
        return Linear({atom: 1}, 0)

    def multiply(self, a, b):
        """a * b in normal form."""
        if not a.terms:
            return scaled(b, a.const)
        if not b.terms:
            return scaled(a, b.const)
        terms = {}
        for x, kx in a.terms.items():
            for y, ky in b.terms.items():
                atom = self.product(factors(x) + factors(y))
                terms[atom] = terms.get(atom, 0) + kx * ky
        accumulate(terms, a.terms, b.const)
        accumulate(terms, b.terms, a.const)
        return self.joined(terms, a.const * b.const)

    def product(self, parts):
        """The atom of a product of atoms; `parts` has no PRODUCT. Its order is that of the first such product."""
        if len(parts) == 1:
            return parts[0]
        key = (PRODUCT, *sorted(parts, key=lambda p: p.serial))
        dtype = INT64 if any(p.dtype is INT64 for p in parts) else INT32
        return self.intern(key, PRODUCT, dtype, parts, lambda: product_expr(parts, dtype))

    def _mul(self, e):
        forms = [self.wrapped(f) for f in _mul_factors(e)]
        if all(len(f.terms) + (f.const != 0) == 1 for f in forms):  # one product, made without its prefixes
            return self._monomial(forms)
        out, *rest = forms
        for form in rest:
            if (len(out.terms) + 1) * (len(form.terms) + 1) > MOST_PRODUCT_TERMS:
                out, form = self._closed(out, e.dtype), self._closed(form, e.dtype)
            out = self.multiply(out, form)
        return out

    def _monomial(self, forms):
        """The product of forms of one term, or one constant, each."""
        parts, scale = (), 1
        for form in forms:
            for atom, k in form.terms.items():
                parts, scale = parts + factors(atom), scale * k
            scale *= form.const or 1
        return Linear({self.product(parts): scale}, 0) if parts else constant(scale)

    def _closed(self, form, dtype):
        """`form` as one opaque atom when it is a sum."""
        if len(form.terms) <= 1:
            return form
        atom = self.intern(("sum", dtype, form.key), OPAQUE, dtype, (form,), lambda: render(form, dtype))
        return Linear({atom: 1}, 0)

    def _floordiv(self, e):
        return floor_rules.floordiv(self.an, self.linear(e.a), self.linear(e.b), e.dtype)

    def _floormod(self, e):
        return floor_rules.floormod(self.an, self.linear(e.a), self.linear(e.b), e.dtype)

    def _truncdiv(self, e):
        return trunc_rules.truncdiv(self.an, self.linear(e.a), self.linear(e.b), e.dtype) or self._opaque(e)

    def _truncmod(self, e):
        return trunc_rules.truncmod(self.an, self.linear(e.a), self.linear(e.b), e.dtype) or self._opaque(e)

    def _choice(self, e):
        return self.choice(MIN if type(e) is Min else MAX, (self.linear(e.a), self.linear(e.b)), e.dtype)

    def choice(self, kind, operands, dtype):
        """The least (MIN) or greatest (MAX) of the operands; those provably not needed are dropped."""
        flat = []
        for form in operands:
            atom = single_atom(form)
            flat.extend(atom.parts if atom is not None and atom.kind == kind else (form,))
        sign = 1 if kind == MIN else -1
        kept = []
        for form in flat:
            if any(self.an.nonnegative(combine(form, k, -1), sign) for k in kept):
                continue  # some kept operand is as good
            kept = [k for k in kept if not self.an.nonnegative(combine(k, form, -1), sign)] + [form]
        if len(kept) == 1:
            return kept[0]
        key = (kind, dtype, frozenset(k.key for k in kept))
        atom = self.intern(key, kind, dtype, tuple(kept), lambda: _nest(kind, kept, dtype))
        return Linear({atom: 1}, 0)

    def _cast(self, e):
        source = e.value.dtype
        if source not in INDEX_TYPES:
            if isinstance(e.value, IntImm) and e.dtype.min_value() <= e.value.value <= e.dtype.max_value():
                return constant(e.value.value)
            narrow = source.is_bool or (source.is_int and source.lanes == 1
                                        and source.bits < (64 if e.dtype is INT64 else 32))
            found = self.opaque_atom(self.an.simplify(e.value)) if narrow else self._opaque(e)
            low, high = linear_bound(self.an, found)
            return constant(low) if low == high else found
        form = self.linear(e.value)
        return form if e.dtype is INT64 or self._fits(form, e.dtype) else self._opaque(e)

    def _fits(self, form, dtype):
        """Whether `form` can be computed in `dtype` instead: atoms are of it and no partial sum leaves it."""
        room = abs(form.const)
        for atom, k in form.terms.items():
            lo, hi = self.an.atom_bound(atom)
            if atom.dtype is not dtype:
                return False
            room += abs(k) * max(abs(lo), abs(hi))
        return room <= dtype.max_value()

    def _select(self, e):
        condition = self.an.simplify(e.condition)
        if isinstance(condition, IntImm):
            return self.linear(e.true_value if condition.value else e.false_value)
        yes, no = self.linear(e.true_value), self.linear(e.false_value)
        if yes.key == no.key:
            return yes
        dtype = e.dtype
        atom = self.intern((SELECT, dtype, self.key(condition), yes.key, no.key), SELECT, dtype,
                           (condition, yes, no), lambda: Select(condition, render(yes, dtype), render(no, dtype)))
        return Linear({atom: 1}, 0)

    # ------------------------------------------------------------ anything else

    def _opaque(self, e):
        inner = self.an.simplify_fields(e)
        return self.opaque_atom(inner) if type(inner) is type(e) else self.linear(inner)

    def opaque_atom(self, e):
        """The atom of a simplified expression that arithmetic does not open."""
        if isinstance(e, IntImm):
            return constant(e.value)
        if isinstance(e, Var):
            return Linear({self.atoms.get(e) or self._new_var(e): 1}, 0)
        atom = self.intern(self.key(e), OPAQUE, e.dtype, (e,), lambda: e)
        return Linear({atom: 1}, 0)

    def key(self, value):
        """A hashable value equal for expressions that are equal up to the order of their sums. What acts on the world
        equals nothing."""
        if isinstance(value, Node):
            if value._is_binder_leaf:
                return value
            kind = type(value)
            if kind is FloatImm:
                return kind, value.dtype, value.value.hex()
            if kind is Call and upper("acts")(value):
                return object()
            if kind in _ARITHMETIC and value.dtype in INDEX_TYPES and not self.an.acts(value):
                return self.linear(value).key
            return (kind, *(self.key(getattr(value, f)) for f in value._fields if f not in value._ignore))
        if isinstance(value, tuple):
            return tuple(self.key(v) for v in value)
        return type(value), value


_ARITHMETIC = (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)


def reads_state(e):
    """Whether the value of `e` may change between two places: it loads from a buffer or calls what is not pure."""
    return any(type(n).__name__ == "BufferLoad" or type(n) is Call and upper("acts")(n) for n in collect(e, PrimExpr))


def _mul_factors(e):
    return _mul_factors(e.a) + _mul_factors(e.b) if type(e) is Mul else [e]


def _vars_of(part):
    if isinstance(part, Linear):
        return part.vars
    return part.vars if isinstance(part, Atom) else frozenset(free_vars(part))


def _nest(kind, forms, dtype):
    build = Min if kind == MIN else Max
    out = render(forms[0], dtype)
    for form in forms[1:]:
        out = build(out, render(form, dtype))
    return out
