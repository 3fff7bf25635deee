"""Einsum: operand after operand by permutations, sums and one product of matrices each."""
from __future__ import annotations

import re
from dataclasses import dataclass


from ..shapes import dims_of, product, same
from .converter import converts


@dataclass(frozen=True)
class Term:
    """A value and the label of each of its axes."""

    value: object
    labels: tuple


@converts("Einsum", 12)
def einsum(node):
    operands, result = _parsed(node)
    terms = [_diagonal(node, Term(x, labels)) for x, labels in zip(node.inputs, operands)]
    sizes = _sizes(node, terms)
    missing = [label for label in result if label not in sizes]
    if missing:
        raise node.error(f"equation {node.attr('equation')!r}: {missing[0]!r} of the result is in no operand")
    total, *others = terms
    for k, other in enumerate(others):
        later = {label for t in others[k + 1:] for label in t.labels} | set(result)
        total = _product(node, total, other, later, sizes)
    total = _summed(node, total, set(result))
    value = node.transpose(total.value, [total.labels.index(label) for label in result])
    return node.broadcast(value, [sizes[label] for label in result])


def _parsed(node):
    """(labels of each operand, labels of the result). The axes that an ellipsis stands for are numbers from the last,
    -1, on."""
    equation = node.attr("equation").replace(" ", "")
    if not re.fullmatch(r"[A-Za-z.,]*(->[A-Za-z.]*)?", equation):
        raise node.error(f"equation {equation!r} is none")
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) != len(node.inputs):
        raise node.error(f"equation {equation!r} has {len(texts)} operands, the node {len(node.inputs)}")
    operands, most = [], 0
    for text, x in zip(texts, node.inputs):
        count = x.struct_info.ndim - len(text.replace("...", ""))
        if count < 0 or "..." not in text and count or "." in text.replace("...", "", 1):
            raise node.error(f"equation {equation!r}: {text!r} does not fit an operand of {x.struct_info.ndim} "
                             "dimensions")
        most = max(most, count)
        operands.append(_labels(text, count))
    if arrow:
        if "." in right.replace("...", "", 1) or len(set(right.replace("...", ""))) < len(right.replace("...", "")):
            raise node.error(f"equation {equation!r}: the result {right!r} names a label twice")
        return operands, _labels(right, most)
    letters = left.replace(",", "").replace(".", "")
    return operands, tuple(range(-most, 0)) + tuple(sorted(c for c in set(letters) if letters.count(c) == 1))


def _labels(text, count):
    before, dots, behind = text.partition("...")
    return (*before, *(range(-count, 0) if dots else ()), *behind)


def _sizes(node, terms):
    """{label: its size}; a size of 1 broadcasts."""
    sizes = {}
    for term in terms:
        for label, d in zip(term.labels, dims_of(term.value)):
            if label not in sizes or same(sizes[label], 1):
                sizes[label] = d
            elif not same(d, 1) and not same(d, sizes[label]):
                raise node.error(f"equation {node.attr('equation')!r}: label {label!r} is {sizes[label]} and {d}")
    return sizes


def _diagonal(node, term):
    """Without labels that are there twice: elements of equal indices, which lie as far apart as the axes' size and
    one."""
    value, labels = term.value, term.labels
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            dims = dims_of(value)
            size = dims[first]
            if not isinstance(size, int) or size != dims[second]:
                raise node.error(f"label {label!r} is there twice in an operand, for {size} and {dims[second]}")
            rest = [k for k in range(len(labels)) if k not in (first, second)]
            value = node.transpose(value, [*rest, first, second])
            value = node.reshape(value, [*(dims[k] for k in rest), size * size])
            if size > 1:
                value = node.call("strided_slice", value, axes=(len(rest),), begin=(0,), end=(size * size,),
                                  strides=(size + 1,))
            labels = (*(labels[k] for k in rest), label)
    return Term(value, labels)


def _summed(node, term, kept):
    """Without labels that nothing needs."""
    axes = tuple(k for k, label in enumerate(term.labels) if label not in kept)
    if not axes:
        return term
    return Term(node.call("sum", term.value, axis=axes), tuple(label for label in term.labels if label in kept))


def _product(node, a, b, later, sizes):
    """The product of two terms, summed over what neither `later` has: batches of matrices."""
    a = _summed(node, a, later | set(b.labels))
    b = _summed(node, b, later | set(a.labels))
    shared = [label for label in a.labels if label in b.labels]
    batch = [label for label in shared if label in later]
    inner = [label for label in shared if label not in later]
    rows = [label for label in a.labels if label not in shared]
    columns = [label for label in b.labels if label not in shared]
    left = _matrices(node, a, batch, rows, inner, sizes)
    right = _matrices(node, b, batch, inner, columns, sizes)
    labels = (*batch, *rows, *columns)
    return Term(node.reshape(node.call("matmul", left, right), [sizes[label] for label in labels]), labels)


def _matrices(node, term, batch, rows, columns, sizes):
    """The term as [*batch, rows, columns], with axes of size 1 repeated."""
    order = [*batch, *rows, *columns]
    value = node.transpose(term.value, [term.labels.index(label) for label in order])
    value = node.broadcast(value, [sizes[label] for label in order])
    return node.reshape(value, [*(sizes[x] for x in batch), product([sizes[x] for x in rows]),
                                product([sizes[x] for x in columns])])
