"""Calls that the parser reads itself: T.Let and T.let name a new variable, T.tvm_access_ptr asks for a buffer."""
from __future__ import annotations

import ast

from ..arith import Analyzer
from ..dtype import DataType
from ..expr import Let, Var, is_const_int
from ..te.tensor import CommReducer
from ..tir.buffer import Buffer
from ..tir.index_map import IndexMap
from ..tir.intrin import address_of
from ..tir.stmt import BufferLoad


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


def access_pointer(parser, node):
    """T.tvm_access_ptr(T.type_annotation(dtype), A.data, offset, extent, mask): the address of an element of A."""
    if len(node.args) != 5:
        parser.fail(node, "expected T.tvm_access_ptr(dtype, A.data, offset, extent, mask)")
    data, offset = parser.eval(node.args[1]), parser.scalar(node.args[2])
    found = next((b for scope in reversed(parser.scopes) for b in scope.values()
                  if isinstance(b, Buffer) and (b is data or b.data is data)), None)
    if found is None:
        parser.fail(node.args[1], "the pointer is the data of no buffer here")
    kind = parser.eval(node.args[0])
    offset = found.in_elements(offset, getattr(kind, "dtype", kind))
    if not is_const_int(found.elem_offset, 0):
        offset = Analyzer().simplify(offset - found.elem_offset)
    return address_of(BufferLoad(found, found.indices_at(offset)))


def reducer(parser, node):
    """T.comm_reducer(lambda x, y: x + y, [identity]): two variables, and of the result one value, for each identity."""
    if len(node.args) != 2 or not isinstance(node.args[0], ast.Lambda):
        parser.fail(node, "expected T.comm_reducer(lambda x, y: x + y, [identity])")
    function, identities = node.args
    identity = tuple(parser.scalar(e) for e in getattr(identities, "elts", [identities]))
    names = [a.arg for a in function.args.args]
    if len(names) != 2 * len(identity):
        parser.fail(function, f"{len(identity)} identities are of {2 * len(identity)} variables, not {len(names)}")
    variables = [Var(name, e.dtype) for name, e in zip(names, identity * 2)]
    result = tuple(parser.as_scalar(v, function) for v in _results(parser, function, variables))
    if len(result) != len(identity):
        parser.fail(function, f"{len(identity)} identities are of as many results, not {len(result)}")
    return CommReducer(tuple(variables[:len(identity)]), tuple(variables[len(identity):]), result, identity)


def _results(parser, function, variables):
    """The values that a lambda gives of variables, one or a tuple of them."""
    parser.scopes.append({v.name: v for v in variables})
    value = parser.eval(function.body)
    parser.scopes.pop()
    return value if isinstance(value, (tuple, list)) else (value,)


def index_map(parser, node):
    """T.index_map(lambda i, j: (j, i)): an IndexMap, of int64 unless index_dtype says otherwise. What inverse_index_map
    says, the map itself tells."""
    named = {k.arg: k.value for k in node.keywords}
    dtype = parser.eval(named.pop("index_dtype")) if "index_dtype" in named else "int64"
    if len(node.args) != 1 or set(named) - {"inverse_index_map"}:
        parser.fail(node, "expected T.index_map(lambda i, j: (j, i))")
    function = node.args[0]
    if not isinstance(function, ast.Lambda) or function.args.vararg or function.args.kwonlyargs:
        return IndexMap.from_func(parser.eval(function), index_dtype=dtype)
    variables = tuple(Var(a.arg, dtype) for a in function.args.args)
    return IndexMap(variables, tuple(
        parser.as_scalar(v, function, DataType(dtype)) for v in _results(parser, function, variables)))


__all__ = ["access_pointer", "index_map", "let", "let_where", "reducer"]
