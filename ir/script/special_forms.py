"""T.Let and T.let, whose arguments name a variable that the call itself defines."""
from __future__ import annotations

import ast

from ..expr import Let, Var


def let_where(parser, node):
    """T.Let(body, where={name: value}): the dict's keys are names of new variables."""
    where = next((k.value for k in node.keywords if k.arg == "where"), node.args[1] if len(node.args) > 1 else None)
    if not node.args or not isinstance(where, ast.Dict) or not all(isinstance(k, ast.Name) for k in where.keys):
        parser.fail(node, "expected T.Let(body, where={name: value})")
    parser.scopes.append({})
    bound = []
    for key, value in zip(where.keys, where.values):
        value = parser.scalar(value)
        bound.append((Var(key.id, value.dtype), value))
        parser.define(key.id, bound[-1][0])
    body = parser.scalar(node.args[0])
    parser.scopes.pop()
    for var, value in reversed(bound):
        body = Let(var, value, body)
    return body


def let(parser, node):
    """T.let(name, value, body): `name` is a new variable, or one made with T.var before."""
    if len(node.args) != 3 or not isinstance(node.args[0], ast.Name):
        parser.fail(node, "expected T.let(name, value, body)")
    name, value = node.args[0].id, parser.scalar(node.args[1])
    known = next((s[name] for s in reversed(parser.scopes) if name in s), None)
    var = known if isinstance(known, Var) and known.dtype == value.dtype else Var(name, value.dtype)
    parser.scopes.append({name: var})
    body = parser.scalar(node.args[2])
    parser.scopes.pop()
    return Let(var, value, body)


__all__ = ["let", "let_where"]
