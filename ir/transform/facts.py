"""Facts: what passes require of programs and ensure of them, in small words, and the check of a list of passes by them.

Rows of the pass table name the facts; docstrings of passes say the same words, and what they mean there.
"""
from __future__ import annotations

# word: (what it says of a program, the facts that it ends)
FACTS = {
    # PrimFuncs
    "blocks": ("computations are blocks with iteration variables", ()),
    "opaque blocks": ("blocks have no iteration variables", ()),
    "no blocks": ("there are loops, branches and declarations alone", ("blocks", "opaque blocks")),
    "no inits": ("no block has an init", ()),
    "no views": ("no two buffers share memory", ()),
    "no matched buffers": ("no block matches a buffer with a region of another", ()),
    "shaped buffers": ("buffers have the dimensions that programs were written with", ()),
    "flat buffers": ("every buffer has one dimension, no strides and no offset", ("shaped buffers",)),
    "guards": ("`if likely(...)` holds back what lies outside of buffers", ()),
    "no vectors": ("every value has one lane", ()),
    "vectors": ("values may have several lanes", ("no vectors",)),
    "no vectorized loops": ("no loop has the kind `vectorized`", ()),
    "widened arithmetic": ("nothing is computed in floats of 16 and 8 bits", ()),
    "no small floats": ("no buffer holds floats of 16 and 8 bits, but integers of their bits", ()),
    "temporaries of constant size": ("every DeclBuffer has a constant size, which a stack has room for", ()),
    "tir.fma": ("FMAs of vectors are calls", ()),
    # graphs
    "dataflow": ("\"main\" is one dataflow block", ()),
    "no MatchCast": ("nothing of a tensor's shape is decided by a run", ()),
    "folded constants": ("no operator has only constant arguments", ()),
    "no nn.batch_norm": ("normalization by constants is a multiplication and an addition", ()),
    "plain layouts": ("images are NCHW", ()),
    "blocked layouts": ("images of convolutions are NCHW{c}c where that is faster", ("plain layouts",)),
    "padding": ("convolutions and pools pad their input themselves", ()),
    "no padding": ("padding is an operator", ("padding",)),
    "groups": ("operators that become one kernel are one function", ()),
}
# What holds at first: of scheduled PrimFuncs, of imported graphs; and what printers of a kind of target require.
SCHEDULED = ("blocks", "shaped buffers", "no vectors")
IMPORTED = ("dataflow", "plain layouts", "padding")
PRINTABLE = {"c": ("no views", "no blocks", "flat buffers", "no vectorized loops", "no small floats",
                   "temporaries of constant size")}
PRINTABLE.update(dict.fromkeys(("cuda", "opencl"), PRINTABLE["c"]))

ENSURED_BY = {}  # word: names of the passes whose rows ensure it; the pass table fills it


class PassOrderError(ValueError):
    """A pass stands where something that it requires does not hold."""


def words(text):
    """The facts of a row, "flat buffers, vectors". Raises ValueError for one that is none."""
    found = tuple(text.split(", ")) if text else ()
    for word in found:
        if word not in FACTS:
            raise ValueError(f"unknown fact {word!r}; known: {', '.join(FACTS)}")
    return found


def check_order(passes, given, wanted=(), reader=""):
    """The facts that hold after a list of passes, where those of `given` do before, as a set.

    wanted: those that `reader`, a printer for instance, requires in the end. Raises PassOrderError naming the first
    pass that requires what does not hold, and the passes that ensure it.
    """
    facts, ended = set(given), {}
    for p in passes:
        _check(f"pass {p.name}", p.info.requires, facts, ended)
        inner = getattr(p, "passes", None)
        if inner is not None:
            facts = check_order(inner, facts)
        for word in p.info.ensures:
            gone = facts.intersection(FACTS[word][1])
            ended.update(dict.fromkeys(gone, p.name))
            facts = facts - gone | {word}
    _check(reader, wanted, facts, ended)
    return facts


def _check(who, required, facts, ended):
    for word in required:
        if word in facts:
            continue
        if word in ended:
            raise PassOrderError(f"{who} requires {word} ({FACTS[word][0]}), which {ended[word]} ends: put it before "
                                 f"{ended[word]}")
        makers = ENSURED_BY.get(word)
        way = f"put {' or '.join(makers)} before it" if makers else "no pass ensures it, it must be given"
        raise PassOrderError(f"{who} requires {word} ({FACTS[word][0]}): {way}")
