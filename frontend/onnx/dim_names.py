"""Dimensions that names are expressions of: "past_sequence_length + sequence_length", as exporters declare them."""
from __future__ import annotations

import ast
import operator

# What gives sizes of sizes. Differences may be below nothing, and quotients of names have no value at zero; of numbers,
# exporters write both signs, and mean whole sizes.
OPERATORS = {ast.Add: operator.add, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Div: operator.floordiv}


def names_in(text):
    """The names in a text of names, numbers and OPERATORS; None where it is none."""
    tree = _tree(text)
    return None if tree is None else {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def value_of(text, dims):
    """The value of such a text, under {name: dimension}."""
    def value(node):
        if isinstance(node, ast.Name):
            return dims[node.id]
        if isinstance(node, ast.Constant):
            return node.value
        return OPERATORS[type(node.op)](value(node.left), value(node.right))

    return value(_tree(text))


def _tree(text):
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return tree if _is_size(tree) else None


def _is_size(node):
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, (ast.FloorDiv, ast.Div)) and not getattr(node.right, "value", 0):
            return False
        return type(node.op) in OPERATORS and _is_size(node.left) and _is_size(node.right)
    return isinstance(node, ast.Name) or isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 0
