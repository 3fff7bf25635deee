"""If, Loop and Scan.

What constants or shapes decide is imported where the node stands: the branch that is taken, the iterations of a loop
whose body is tiny or changes shapes. The rest becomes branches and loops of the program (ir/relax/control.py).
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir import expr as ex
from ...ir.module import GlobalVar
from ...ir.relax.control import call_if, call_loop, rows_of
from ...ir.relax.expr import Constant, PrimValue, RelaxCall, RelaxExpr, RelaxVar, TensorStructInfo
from ..shapes import MOST_DIM, Symbolic, dims_of, prove, same, same_dims, shape_text, simplify, upper
from .converter import converts
from .errors import OnnxImportError, UnknownBound
from .names import identifier
from .operands import check
from .ops_sequence import Sequence
from .subgraphs import draft, drafted, inline

TINY = 8  # nodes, in all iterations, up to which a loop is no loop
MOST_UNROLLED = 20_000  # nodes, in all iterations, of a loop that must be unrolled


# ---------------------------------------------------------------- If

@converts("If")
def if_(node):
    """A condition that is constant, or holds (fails) for all sizes, leaves one branch. So does a branch that is not
    valid for the shapes at hand, or gives another rank where dimensions decide: a run checks that it takes the other
    one."""
    graphs = {True: node.attrs["then_branch"], False: node.attrs["else_branch"]}
    for graph in graphs.values():
        if len(graph.output) != len(node.outputs):
            raise node.error(f"a branch gives {len(graph.output)} values, the node has {len(node.outputs)} outputs")
    cond = _condition(node, node.input(0))
    if isinstance(cond, bool):
        return tuple(inline(node.scope, graphs[cond], (), node.title))
    then, other = (_drafted(node, graphs[holds]) for holds in (True, False))
    if isinstance(then, OnnxImportError) and isinstance(other, OnnxImportError):
        raise then
    if isinstance(then, OnnxImportError) or isinstance(other, OnnxImportError):
        taken = isinstance(other, OnnxImportError)
        return _only(node, graphs[taken], cond, taken, f"the other one is not valid here: {other if taken else then}")
    if then.counts != other.counts:
        raise node.error("the branches give sequences of different lengths, and only a run knows which is taken; "
                         "results must have as many elements")
    names = [name for name, count in zip(node.outputs, then.counts) for _ in range(1 if count is None else count)]
    different = next(((n, a, b) for n, a, b in zip(names, then.infos, other.infos)
                      if a.dtype != b.dtype or a.ndim != b.ndim), None)
    if different:
        name, a, b = different
        if not isinstance(cond, PrimValue):
            raise node.error(f"the branches give {name!r} as {_text(a)} and {_text(b)}, and only a run knows which is "
                             "taken; results must have one dtype and one number of dimensions")
        taken = node.scope.choices.next(_by_rank(node, names, then.infos, other.infos))
        return _only(node, graphs[taken], cond, taken, f"the branches give {name!r} as {_text(a)} and {_text(b)}")
    dims, infos = [], []
    for name, a, b in zip(names, then.infos, other.infos):
        infos.append(TensorStructInfo([_either(node, dims, f"{identifier(name, 't')}_d{k}", p, q)
                                       for k, (p, q) in enumerate(zip(a.shape, b.shape))], a.dtype))
    outer = list({id(v): v for v in (*then.outer, *other.outer)}.values())
    bodies = [node.scope.add_body(f"{_stem(node)}_{what}", d.function((), outer))
              for what, d in (("then", then), ("else", other))]
    if not infos:
        return tuple(Sequence() for _ in then.counts)
    call = node.emit(call_if(cond, *map(GlobalVar, bodies), outer, infos, dims))
    found = iter([call[n] for n in range(len(infos))] if len(infos) > 1 else [call])
    return tuple(next(found) if count is None else Sequence(tuple(node.bind(next(found)) for _ in range(count)))
                 for count in then.counts)


def _items(value):
    return value.items if isinstance(value, Sequence) else None


def _drafted(node, graph):
    """The Draft of a branch, or the OnnxImportError that says why it has none."""
    narrowed = dict(node.scope.narrowed)
    try:
        return node.scope.choices.attempt(lambda: draft(node.scope, graph, (), node.title, take_apart=_items))
    except UnknownBound:
        raise
    except OnnxImportError as error:
        node.scope.narrowed.clear()
        node.scope.narrowed.update(narrowed)
        return error


def _by_rank(node, names, then, other):
    """Whether the results of the first branch rather have the ranks that the model declares; True where it says
    nothing."""
    declared = [node.scope.declared_dims(name) for name in names]
    return not any(d is not None and len(d) == b.ndim != a.ndim for d, a, b in zip(declared, then, other))


def _only(node, graph, cond, taken, why):
    """The results of the branch that every run must take; a run that would take the other one fails."""
    node.scope.narrowed[node.title] = (f"compiled for runs that take the {'then' if taken else 'else'} branch, others "
                                       f"fail with INGOT_ERR_DIM: {why}")
    holds = node.bind(node.reshape(node.tensor(cond), [1]))
    check(node, holds if taken else node.bind(node.call("logical_not", holds)))
    return tuple(inline(node.scope, graph, (), node.title))


def _condition(node, value):
    """A bool where it is known, a PrimValue where dimensions decide, else a bool tensor without dimensions."""
    if isinstance(value, Constant):
        if value.data.size != 1:
            raise node.error(f"the condition must be one element, it has {value.data.size}")
        return bool(value.data.reshape(-1)[0])
    if isinstance(value, Symbolic):
        if value.array.size != 1:
            raise node.error(f"the condition must be one element, it has {value.array.size}")
        cond = value.array.reshape(-1)[0]
        cond = cond if cond.dtype.is_bool else ex.NE(cond, ex.const(0, cond.dtype))
        known = prove(cond)
        return PrimValue(cond) if known is None else known
    return node.bind(node.reshape(node.astype(value, "bool"), []))


def _either(node, dims, name, a, b):
    """A dimension that is `a` after one branch and `b` after the other."""
    if same(_number(a), _number(b)):
        return a
    bounds = [upper(_number(d)) for d in (a, b)]
    most = None if None in bounds else simplify(ex.binary(ex.Max, *(ex.as_expr(d).astype("int64") for d in bounds)))
    var = node.scope.decided(node, name, most, "a dimension of its result")
    dims.append((var, a, b))
    return var


def _number(dim):
    return dim.value if isinstance(dim, ex.IntImm) else dim


def _text(info):
    return f"{info.dtype}{shape_text(info.shape)}"


def _stem(node):
    return identifier(node.proto.name or next(filter(None, node.outputs), node.proto.op_type), "t")


# ---------------------------------------------------------------- Loop

@dataclass(frozen=True)
class _Turns:
    """How often a body runs. number: an int, or an expression, where that is known; else a tensor `limit`, None for no
    limit. cond: whether the first iteration is one, a bool tensor; None for always."""

    number: object = None
    limit: object = None
    cond: object = None


@converts("Loop")
def loop(node):
    """Inputs: the number of turns and the condition of the first, both optional, and the carried values."""
    graph, carried = node.attrs["body"], node.inputs[2:]
    stacked = len(graph.output) - 1 - len(carried)
    if len(graph.input) != 2 + len(carried) or stacked < 0:
        raise node.error(f"it carries {len(carried)} values, and its body has {len(graph.input)} inputs and "
                         f"{len(graph.output)} outputs: it must take turn, condition and these, and return condition, "
                         "these and rows")
    turns = _turns(node)
    tiny = isinstance(turns.number, int) and (turns.number == 1 or turns.number * len(graph.node) <= TINY)
    if tiny and turns.number:
        found = _unrolled(node, graph, carried, turns.number)
        if found is not None:
            return found
    try:
        return _rolled(node, graph, carried, turns)
    except OnnxImportError as error:
        most = turns.number if isinstance(turns.number, int) else 0
        found = _unrolled(node, graph, carried, most) if 0 < most * len(graph.node) <= MOST_UNROLLED else None
        if found is None:
            raise error
        return found


def _turns(node):
    """The _Turns of a Loop."""
    trip, first = node.input(0), node.input(1)
    cond = True if first is None else _condition(node, first)
    cond = node.bind(node.tensor(cond)) if isinstance(cond, PrimValue) else cond
    number = limit = None
    if isinstance(trip, Constant):
        number = max(int(trip.data.reshape(-1)[0]), 0)
    elif isinstance(trip, Symbolic):
        number = trip.array.reshape(-1)[0]
        number = number if prove(ex.binary(ex.GE, number, 0)) else simplify(ex.binary(ex.Max, number, 0))
    elif trip is not None:
        limit = node.bind(node.reshape(node.astype(trip, "int64"), []))
    if cond is False:
        number, limit = 0, None
    cond = None if isinstance(cond, bool) else cond
    if isinstance(number, int) and number > MOST_DIM:
        number = None
    return _Turns(number, limit, cond)


def _unrolled(node, graph, carried, turns):
    """The results of a loop of so many iterations, each imported where the node stands; None where an iteration depends
    on what only a run knows."""
    if not isinstance(turns, int) or _turns(node).cond is not None:
        return None
    rows = []
    for k in range(turns):
        going, *results = inline(node.scope, graph, (node.const(k, "int64"), node.const(True, "bool"), *carried),
                                 node.title)
        going = _condition(node, going)
        carried = results[:len(carried)]
        rows.append(results[len(carried):])
        if going is False:
            break
        if going is not True:
            return None
    values = []
    for row in zip(*rows):
        row = [node.bind(x) for x in row]
        if not all(same_dims(dims_of(row[0]), dims_of(x)) for x in row):
            return None
        parts = [node.bind(node.reshape(x, [1, *dims_of(x)])) for x in row]
        values.append(node.call("concat", *parts, axis=0) if len(parts) > 1 else parts[0])
    return (*carried, *values)


def _rolled(node, graph, carried, turns):
    """The results of a loop of the program."""
    carried = [node.tensor(x) for x in carried]
    if not all(isinstance(x, RelaxExpr) for x in carried):
        raise node.error("it carries a sequence or an optional value, and only a run knows how often it turns; only "
                         "tensors are carried then")
    most = turns.number if turns.number is not None else MOST_DIM
    index = ex.Var(f"{_stem(node)}_i", "int64", ex.as_expr(most).astype("int64"))
    params = [RelaxVar(f"carried_{k}", x.struct_info) for k, x in enumerate(carried)]
    given = (Symbolic(np.array(index, object), "int64"), node.const(True, "bool"), *params)
    wanted = [None, *(x.struct_info for x in carried), *map(_declared, graph.output[1 + len(carried):])]
    body = draft(node.scope, graph, given, node.title, params, wanted)
    going, *results = body.outputs
    known = bool(going.data.reshape(-1)[0]) if isinstance(going, Constant) and going.data.size == 1 else None
    for name, x, new in zip((i.name for i in graph.input[2:]), carried, results):
        if x.struct_info.dtype != new.struct_info.dtype or not same_dims(dims_of(x), dims_of(new)):
            raise node.error(f"it carries {name!r} as {_text(x.struct_info)} into a turn and {_text(new.struct_info)} "
                             "out of it; a loop of the program carries tensors of one shape")
    if known is False and isinstance(turns.number, int):
        turns = _Turns(min(turns.number, 1), None, turns.cond)
        known = True
    if going.struct_info.ndim:
        raise node.error(f"its body's condition has the shape {shape_text(dims_of(going))}, it must have no dimensions")
    rows = results[len(carried):]
    return _loop(node, body, index, carried, (), params, rows, turns, known is not True)


def _declared(output):
    """The struct info of a body's output as far as the model declares numbers, else None."""
    tensor = output.type.tensor_type
    dims = [d.dim_value for d in tensor.shape.dim]
    return TensorStructInfo(dims, "float32") if tensor.HasField("shape") and all(d > 0 for d in dims) else None


def _loop(node, body, index, carried, scanned, params, rows, turns, conditional):
    """The values of a call_loop. rows: the body's outputs that are stacked; conditional: whether the body says if there
    is a next iteration."""
    names = [n or f"{_stem(node)}_{k}" for k, n in enumerate(node.outputs)]
    for name, row in zip(names[len(carried):], rows):
        if any(v is index or v in body.dims for v in ex.free_vars(list(row.struct_info.shape))):
            raise node.error(f"the rows of {name!r} are {_text(row.struct_info)}, a shape that may differ from turn to "
                             "turn; rows that are stacked have one shape")
    number, limit, cond, count = turns.number, turns.limit, turns.cond, None
    conditional = conditional or cond is not None
    if number is None or conditional:
        limit = limit if number is None else node.bind(node.tensor(number, "int64"))
        cond = (node.const(True, "bool") if cond is None else cond) if conditional or limit is None else None
        conditional = cond is not None
        count = _count(node, number, rows, names, len(carried))
        number = None
    extent = count if number is None else ex.as_expr(number).astype("int64")
    infos = [*(x.struct_info for x in carried), *(rows_of(extent, r.struct_info) for r in rows)]
    results = body.outputs if conditional else body.outputs[len(body.outputs) - len(infos):]
    func = body.function(params, body.outer, results)
    if not infos:
        return ()
    name = node.scope.add_body(f"{_stem(node)}_body", func)
    call = node.emit(call_loop(GlobalVar(name), index, infos, [node.bind(x) for x in carried],
                               scanned, body.outer, number if number is None else extent, limit, cond, count))
    return tuple(call[n] for n in range(len(infos))) if len(infos) > 1 else (call,)


def _count(node, number, rows, names, first):
    """The dimension that counts turns, of which stacked rows, output number `first` and later ones, ask for an upper
    bound."""
    if not rows:
        return ex.Var(f"{_stem(node)}_turns", "int64")
    most = None if number is None else upper(number)
    return node.scope.decided(node, f"{identifier(names[first], 't')}_turns", most, "its number of turns", (first, 0))


# ---------------------------------------------------------------- Scan

@converts("Scan", 9)
def scan(node):
    """Rows along any axis, in both directions: a loop over the first axis of transposed and flipped tensors."""
    graph, count = node.attrs["body"], node.attr("num_scan_inputs")
    states = len(node.inputs) - count
    if not 0 < count <= len(node.inputs) or len(graph.output) < states or len(graph.input) != len(node.inputs):
        raise node.error(f"num_scan_inputs is {count}, and the body has {len(graph.input)} inputs and "
                         f"{len(graph.output)} outputs, which does not fit {len(node.inputs)} inputs")
    carried = [node.bind(node.tensor(x)) for x in node.inputs[:states]]
    scanned = []
    for k, x in enumerate(node.inputs[states:]):
        x = node.tensor(x)
        rank = len(dims_of(x))
        axis = node.axis(_listed(node, "scan_input_axes", count)[k], rank, "scan_input_axes")
        x = node.transpose(x, [axis, *(n for n in range(rank) if n != axis)])
        scanned.append(node.bind(_flipped(node, x, _listed(node, "scan_input_directions", count)[k])))
    found = _scanned(node, graph, carried, scanned)
    rows = len(found) - states
    for k in range(states, len(found)):
        x = _flipped(node, found[k], _listed(node, "scan_output_directions", rows)[k - states])
        rank = len(dims_of(x))
        axis = node.axis(_listed(node, "scan_output_axes", rows)[k - states], rank, "scan_output_axes")
        order = list(range(1, rank))
        order.insert(axis, 0)
        found[k] = node.transpose(x, order)
    return tuple(found)


def _scanned(node, graph, carried, scanned):
    """The last states and the stacked rows of a loop over the first axis of `scanned`."""
    turns = dims_of(scanned[0])[0]
    for x in scanned:
        if not same(dims_of(x)[0], turns):
            raise node.error(f"the scanned inputs have {turns} and {dims_of(x)[0]} rows")
    params = [RelaxVar(f"state_{k}", x.struct_info) for k, x in enumerate(carried)]
    params += [RelaxVar(f"row_{k}", TensorStructInfo(x.struct_info.shape[1:], x.struct_info.dtype))
               for k, x in enumerate(scanned)]
    body = draft(node.scope, graph, params, node.title, params)
    for x, new in zip(carried, body.outputs):
        if x.struct_info.dtype != new.struct_info.dtype or not same_dims(dims_of(x), dims_of(new)):
            raise node.error(f"it takes a state as {_text(x.struct_info)} and returns it as {_text(new.struct_info)}")
    index = ex.Var(f"{_stem(node)}_i", "int64", ex.as_expr(turns).astype("int64"))
    rows = body.outputs[len(carried):]
    return list(_loop(node, body, index, carried, scanned, params, rows, _Turns(turns), False))


@converts("Scan", 8)
def scan_v8(node):
    """The first axis is the batch, and of what is scanned the second is the time: one loop for each of the batch."""
    graph, count = node.attrs["body"], node.attr("num_scan_inputs")
    states = len(node.inputs) - 1 - count
    if not 0 < count < len(node.inputs) or len(graph.output) < states or len(graph.input) != len(node.inputs) - 1:
        raise node.error(f"num_scan_inputs is {count}, and the body has {len(graph.input)} inputs and "
                         f"{len(graph.output)} outputs, which does not fit {len(node.inputs) - 1} inputs")
    if node.input(0) is not None:
        raise node.error("sequence_lens is not supported; convert the model to opset 9, which has none")
    tensors = [node.bind(node.tensor(x)) for x in node.inputs[1:]]
    batch = dims_of(tensors[0])[0] if dims_of(tensors[0]) else None
    if not isinstance(batch, int) or any(dims_of(x)[:1] != [batch] for x in tensors):
        raise node.error("its inputs must have one batch size, the first dimension, that is known when compiling; pin "
                         "it with dims")
    found = []
    for k in range(batch):
        each = [node.bind(node.reshape(_row(node, x, k), dims_of(x)[1:])) for x in tensors]
        flipped = [node.bind(_flipped(node, x, d)) for x, d in zip(each[states:], _listed(node, "directions", count))]
        found.append(_scanned(node, graph, each[:states], flipped))
    rows = [[node.bind(node.reshape(x, [1, *dims_of(x)])) for x in map(node.bind, column)] for column in zip(*found)]
    return tuple(node.call("concat", *parts, axis=0) if batch > 1 else parts[0] for parts in rows)


def _row(node, x, k):
    """x[k:k + 1]."""
    return node.call("strided_slice", x, axes=(0,), begin=(k,), end=(k + 1,), strides=(1,))


def over_rows(node, carried, scanned, step):
    """(last carried values, stacked results) of a loop over the rows of `scanned`, tensors of one first extent.

    step: function (node of the body, turn as an expression, carried values, rows) -> (carried values, results).
    """
    carried, scanned = ([node.bind(node.tensor(x)) for x in values] for values in (carried, scanned))
    turns = dims_of(scanned[0])[0]
    params = [RelaxVar(f"state_{k}", x.struct_info) for k, x in enumerate(carried)]
    params += [RelaxVar(f"row_{k}", TensorStructInfo(x.struct_info.shape[1:], x.struct_info.dtype))
               for k, x in enumerate(scanned)]
    index = ex.Var(f"{_stem(node)}_i", "int64", ex.as_expr(turns).astype("int64"))

    def make(builder):
        inner = node.inside(builder)
        states, results = step(inner, index, params[:len(carried)], params[len(carried):])
        return [inner.emit(x) if isinstance(x, RelaxCall) else inner.bind(x) for x in (*states, *results)]

    body = drafted(make, params)
    found = _loop(node, body, index, carried, scanned, params, body.outputs[len(carried):], _Turns(turns), False)
    return found[:len(carried)], found[len(carried):]


def _listed(node, name, count):
    """An attribute with one number for each of `count` tensors, by default 0."""
    values = node.attr(name, (0,) * count)
    if len(values) != count:
        raise node.error(f"attribute {name} has {len(values)} numbers, and must have {count}")
    return values


def _flipped(node, x, direction):
    return node.call("flip", x, axis=0) if direction else x
