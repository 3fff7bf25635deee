"""Functions: every call is replaced by the nodes of its function's body. Those of the model are expanded before the
import, those by which the standard defines an operator when the types of the node's inputs are known.

Each node keeps the opset that its function imports. Names inside a function are made unique; an attribute that a call
omits takes the function's default, and one without a default leaves the attributes that refer to it absent.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, helper

from ...ir.expr import IntImm
from ...ir.names import unique_name
from .captures import outer_names, subgraphs
from .errors import OnnxImportError
from .load import DOMAINS, DTYPES, check_opset, needed, other_opsets
from .names import printable

MOST_NODES = 1_000_000  # of a graph whose functions are expanded


@dataclass(frozen=True)
class Node:
    """A node of the graph with the opset, of its domain, of the function or model that it stands in."""

    proto: NodeProto
    opset: int

    @property
    def title(self):
        """How errors name the node: `Conv node "conv1" (opset 13)`."""
        name = self.proto.name or next(filter(None, self.proto.output), "unnamed")
        return f'{printable(self.proto.op_type)} node "{printable(name)}" (opset {self.opset})'


def graph_nodes(model, opset):
    """The nodes of the model's graph, in order, with calls of its functions expanded.

    Raises OnnxImportError for calls that do not fit their function, for functions that call themselves, and when more
    than MOST_NODES nodes would result.
    """
    return expander(model, opset)(model.graph)


def expander(model, opset):
    """graph_nodes as a function of a graph, the model's or one inside of its nodes."""
    functions, others = _functions(model), other_opsets(model)

    def nodes(graph):
        return [Node(proto, others.get(proto.domain, opset)) for proto in graph.node]

    if not functions:
        return nodes
    _check_sizes(model, functions)
    taken = {t.name for t in model.graph.initializer} | {i.name for i in model.graph.input}
    taken.update(name for node in _all_nodes(model.graph.node) for name in (*node.input, *node.output))
    return lambda graph: _expanded(nodes(graph), functions, taken)


def _all_nodes(nodes):
    """Nodes, and those of the graphs that they hold."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _all_nodes(graph.node)


def _expanded(nodes, functions, taken):
    done, todo = [], nodes[::-1]
    while todo:
        node = todo.pop()
        function = functions.get(_key(node.proto))
        if function is None:
            done.append(node)
        else:
            todo.extend(reversed(_body(node, function, taken)))
    return done


# ---------------------------------------------------------------- the table of functions

def _domain(name):
    return "" if name in DOMAINS else name


def _key(node):
    return _domain(node.domain), node.op_type, node.overload


def _title(key):
    domain, name, overload = key
    return f"function {f'{domain}::' if domain else ''}{name}" + (f" (overload {overload!r})" if overload else "")


def _functions(model):
    """{(domain, name, overload): FunctionProto}."""
    functions = {}
    for f in model.functions:
        key = _domain(f.domain), f.name, f.overload
        if key in functions:
            raise OnnxImportError(f"{_title(key)} is defined twice in the model; its name must be unique")
        for names, what in ((f.input, "input"), (f.output, "output"),
                            ([*f.attribute, *(a.name for a in f.attribute_proto)], "attribute")):
            name, count = next(iter(Counter(names).most_common(1)), ("", 1))
            if count > 1:
                raise OnnxImportError(f"{_title(key)} declares the {what} {name!r} twice")
        functions[key] = f
    return functions


def _check_sizes(model, functions):
    """No function calls itself, and the expanded graph stays below MOST_NODES. Counts without expanding."""
    sizes, entered = {}, set()
    calls = {key: Counter(k for k in map(_key, _all_nodes(f.node)) if k in functions) for key, f in functions.items()}
    todo = [k for k in map(_key, _all_nodes(model.graph.node)) if k in functions]
    while todo:
        key = todo[-1]
        if key in sizes:
            todo.pop()
            continue
        inner = [k for k in calls[key] if k not in sizes]
        if inner and key in entered:
            raise OnnxImportError(f"{_title(key)} calls itself, directly or through other functions; ONNX has no "
                                  "recursion: rewrite the function")
        entered.add(key)
        todo.extend(inner)
        if not inner:
            own = len(functions[key].node) + len(functions[key].output)
            sizes[key] = own + sum(n * sizes[k] for k, n in calls[key].items())
    total = sum(sizes.get(_key(node), 1) for node in _all_nodes(model.graph.node))
    if total > MOST_NODES:
        largest = max(sizes, key=sizes.get)
        raise OnnxImportError(f"the model's functions expand to {total} nodes, {_title(largest)} alone to "
                              f"{sizes[largest]}; at most {MOST_NODES} are supported: split the model")


# ---------------------------------------------------------------- one call

def _body(call, function, taken):
    """The nodes that the call stands for."""
    names = _interface(call, function, taken)
    given = _attributes(call, function)
    opset, others = _opset(call, function), other_opsets(function)
    prefix = call.proto.name or next(filter(None, call.proto.output), function.name)
    nodes = []
    for name in function.output:  # one that is an input as it is; SSA lets no other node make it
        if name in function.input and names[name][1]:
            nodes.append(Node(NodeProto(op_type="Identity", input=[names[name][0]], output=[names[name][1]]), opset))

    def inside(name):
        """The tensor's name in the graph; made up for what the body makes."""
        if not name:
            return ""
        if name not in names:
            fresh = unique_name(f"{prefix}_{name}", taken)
            names[name] = fresh, fresh
        return names[name][0]

    for proto in function.node:
        new = NodeProto(op_type=proto.op_type, domain=proto.domain, overload=proto.overload,
                        name=f"{prefix}_{proto.name}" if proto.name else "",
                        input=[inside(n) for n in proto.input], output=[inside(n) for n in proto.output])
        new.attribute.extend(filter(None, (_resolved(a, given) for a in proto.attribute)))
        for graph in subgraphs(new):
            _rename_outer(graph, inside, given)
        if not proto.name and len(function.node) == 1:
            new.name = call.proto.name
        nodes.append(Node(new, others.get(new.domain, opset)))
    return nodes


def _interface(call, function, taken):
    """{formal name: (name that is read, name that is made)} of a function's inputs and outputs."""
    proto = call.proto
    for given, declared, what in ((proto.input, function.input, "inputs"), (proto.output, function.output, "outputs")):
        if len(given) > len(declared):
            raise OnnxImportError(f"{call.title} has {len(given)} {what}, and its function in the model has "
                                  f"{len(declared)}")
    actual = [*proto.input, *[""] * (len(function.input) - len(proto.input))]
    names = {formal: (name, "") for formal, name in zip(function.input, actual)}
    made = [*proto.output, *[""] * (len(function.output) - len(proto.output))]
    for formal, name in zip(function.output, made):
        if formal in names:
            names[formal] = names[formal][0], name
        else:
            name = name or unique_name(f"{proto.name or function.name}_{formal}", taken)
            names[formal] = name, name
    return names


def _attributes(call, function):
    """{name: AttributeProto} of the function's attributes: the call's, else the defaults."""
    known = {*function.attribute, *(a.name for a in function.attribute_proto)}
    given = {a.name: a for a in function.attribute_proto}
    seen = set()
    for a in call.proto.attribute:
        if a.name not in known:
            raise OnnxImportError(f"{call.title} has an attribute {a.name!r}, which its function in the model does not "
                                  f"have; it has {', '.join(sorted(known)) or 'none'}")
        if a.name in seen:
            raise OnnxImportError(f"{call.title}: attribute {a.name!r} is given twice")
        seen.add(a.name)
        given[a.name] = a
    return given


def _opset(call, function):
    """The opset of the default domain that the body is written in; the caller's where it imports none."""
    versions = [o.version for o in function.opset_import if o.domain in DOMAINS]
    return check_opset(versions[0], f"{call.title}: its function") if versions else call.opset


def _rename_outer(graph, inside, given):
    """Rename what a graph inside of a function's node uses of the function, and resolve its attributes."""
    names = {name: inside(name) for name in outer_names(graph)}
    for output in graph.output:
        output.name = names.get(output.name, output.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        attributes = list(filter(None, (_resolved(a, given) for a in node.attribute)))
        del node.attribute[:]
        node.attribute.extend(attributes)
        for inner in subgraphs(node):
            _rename_outer(inner, lambda name: names.get(name, name), given)


def _resolved(attribute, given):
    """An attribute of a body's node, that of the call where it refers to one; None when that is absent."""
    if attribute.ref_attr_name:
        source = given.get(attribute.ref_attr_name)
        if source is None:
            return None
        new = AttributeProto()
        new.CopyFrom(source)
        new.name = attribute.name
        return new
    return attribute


# ---------------------------------------------------------------- functions of the standard

ELEMENT_TYPES = {name: number for number, name in DTYPES.items()}


def has_function(schema):
    """Whether the standard defines the operator by a function of other operators."""
    return schema.has_function or schema.has_context_dependent_function


def standard_nodes(node, schema, infos, taken, opset):
    """The nodes that the standard says the operator is, or None when it does not say so for this node.

    infos: struct info of the inputs, None where one is absent. taken: names of tensors, added to. opset: the model's,
    of the default domain, in which functions of other domains are written.
    """
    call = NodeProto()
    call.CopyFrom(node.proto)
    function = FunctionProto()
    body = _standard_body(call, schema, node.opset, infos)
    if not body:
        return None
    function.ParseFromString(body)
    known = {*function.attribute, *(a.name for a in function.attribute_proto)}
    given = {a.name for a in call.attribute}
    call.attribute.extend(d.default_value for name, d in schema.attributes.items()
                          if name in known and name not in given and d.default_value.type)
    kept = [a for a in call.attribute if a.name in known]
    del call.attribute[:]
    call.attribute.extend(kept)
    opset = node.opset if call.domain in DOMAINS else opset
    return needed(_body(Node(call, opset), function, taken), call.output)


def _standard_body(call, schema, opset, infos):
    """The function's bytes, of the newest version of its body not above the opset."""
    versions = schema.context_dependent_function_opset_versions
    if versions:
        types = [_type(info).SerializeToString() for info in infos]
        version = max((v for v in versions if v <= opset), default=min(versions))
        return schema.get_context_dependent_function_with_opset_version(version, call.SerializeToString(), types)
    version = max((v for v in schema.function_opset_versions if v <= opset), default=schema.since_version)
    return schema.get_function_with_opset_version(version)


def _type(info):
    """The TypeProto of a tensor; an empty one where it is absent."""
    if info is None:
        return TypeProto()
    dims = [int(d) if isinstance(d, (int, IntImm)) else str(d) for d in info.shape]
    return helper.make_tensor_type_proto(ELEMENT_TYPES[str(info.dtype)], dims)
