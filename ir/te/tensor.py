"""Tensors and the operations that make them. Fields and meanings are TVM's."""
from __future__ import annotations

from ..dtype import DataType
from ..expr import IterVar, PrimExpr, as_expr
from ..node import Mutator, Node, node, node_field
from ..tir.stmt import Stmt
from ..upper import upper


class Operation(Node):
    """Base of what makes tensors. Each has a name, and says of which shape and dtype its outputs are."""

    __slots__ = ()
    num_outputs = 1
    input_tensors = ()

    def __repr__(self):
        parts = (f"{f}={getattr(self, f)!r}" for f in self._fields[1:])
        return f"{type(self).__name__}({', '.join((self.name, *parts))})"

    def output(self, index):
        """The tensor that is output `index`."""
        if not 0 <= index < self.num_outputs:
            raise IndexError(f"operation {self.name} has {self.num_outputs} outputs, {index} is asked for")
        return Tensor(self, index)


@node
class PlaceholderOp(Operation):
    """A tensor given from outside."""

    name: str
    shape: tuple
    dtype: DataType
    _is_binder_leaf = True
    tag = ""

    @property
    def attrs(self):
        return {}

    def shape_of(self, _):
        return self.shape

    def dtype_of(self, _):
        return self.dtype


@node
class ComputeOp(Operation):
    """axis: the outputs' IterVars; reduce_axis: those of a reduction; body: one expression per output."""

    name: str
    axis: tuple = node_field(define=True)
    reduce_axis: tuple = node_field(define=True, default=())
    body: tuple = ()
    attrs: dict = node_field(default_factory=dict)
    tag: str = ""

    @property
    def num_outputs(self):
        return len(self.body)

    @property
    def input_tensors(self):
        return tensors_read(self.body)

    def shape_of(self, _):
        return tuple(iv.dom.extent for iv in self.axis)

    def dtype_of(self, index):
        return self.body[index].dtype


@node
class ExternOp(Operation):
    """An operation given by `body`, a statement over input_buffers and output_buffers (`inputs` and outputs)."""

    name: str
    inputs: tuple
    input_buffers: tuple
    output_buffers: tuple
    body: Stmt
    attrs: dict = node_field(default_factory=dict)
    tag: str = ""

    @property
    def num_outputs(self):
        return len(self.output_buffers)

    @property
    def input_tensors(self):
        return self.inputs

    @property
    def input_placeholders(self):
        """TVM's name of input_buffers."""
        return self.input_buffers

    @property
    def output_placeholders(self):
        """TVM's name of output_buffers."""
        return self.output_buffers

    def shape_of(self, index):
        return self.output_buffers[index].shape

    def dtype_of(self, index):
        return self.output_buffers[index].dtype


@node
class ScanOp(Operation):
    """A recurrence over the first dimension: `init` gives the first rows of `state`, `update` each later one from
    earlier rows of `state` (placeholders), in the order of scan_axis. inputs: what else update reads."""

    name: str
    scan_axis: IterVar
    init: tuple
    update: tuple
    state: tuple
    inputs: tuple = ()
    attrs: dict = node_field(default_factory=dict)
    tag: str = ""

    @property
    def num_outputs(self):
        return len(self.update)

    @property
    def input_tensors(self):
        return (*self.init, *self.update)

    def shape_of(self, index):
        return self.state[index].shape

    def dtype_of(self, index):
        return self.state[index].dtype


@node
class Tensor(Node):
    """An n-dimensional value; index it with as many expressions as it has dimensions, or call it.

    `t[i][j]` is `t[i, j]`. A tensor without dimensions is an expression. `+ - * / // %` with tensors broadcast, as
    topi's add ... do.
    """

    op: Operation
    value_index: int = 0

    def __repr__(self):
        return f"Tensor(shape={list(self.shape)}, op.name={self.op.name})"

    @property
    def name(self):
        return self.op.name

    @property
    def shape(self):
        return self.op.shape_of(self.value_index)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def dtype(self):
        return self.op.dtype_of(self.value_index)

    @property
    def key(self):
        """The identity of the output that a Tensor stands for."""
        return self.op, self.value_index

    def __eq__(self, other):
        return isinstance(other, Tensor) and self.key == other.key

    def __hash__(self):
        return hash(self.key)

    def __call__(self, *indices):
        return self[indices]

    def __getitem__(self, indices):
        return _indexed(self, indices if isinstance(indices, tuple) else (indices,))

    def __prim_expr__(self):
        return self[()].__prim_expr__() if self.ndim else self[()]


def _indexed(tensor, indices):
    if len(indices) > tensor.ndim:
        raise IndexError(f"tensor {tensor.name} has {tensor.ndim} dimensions, indexed with {len(indices)}")
    if any(isinstance(i, slice) for i in indices):
        raise TypeError(f"tensor {tensor.name} is indexed with a slice; compute a tensor of the part that is meant")
    indices = tuple(as_expr(i) for i in indices)
    for i in indices:
        if not i.dtype.is_int:
            raise TypeError(f"index {i} of tensor {tensor.name} is {i.dtype} instead of an integer")
    return ProducerLoad(tensor, indices) if len(indices) == tensor.ndim else TensorSlice(tensor, indices)


class TensorSlice:
    """A tensor some of whose indices are given; index on."""

    def __init__(self, tensor, indices):
        self.tensor, self.indices = tensor, indices

    def __getitem__(self, indices):
        return _indexed(self.tensor, self.indices + (indices if isinstance(indices, tuple) else (indices,)))

    def __prim_expr__(self):
        raise IndexError(f"tensor {self.tensor.name} has {self.tensor.ndim} dimensions, indexed with "
                         f"{len(self.indices)}")


_OPERATORS = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
              "mod": "floor_mod"}


def _elementwise(name, swapped=False):
    def operator(self, other):
        function = getattr(upper("topi"), name)
        return function(other, self) if swapped else function(self, other)
    return operator


for _symbol, _name in _OPERATORS.items():
    setattr(Tensor, f"__{_symbol}__", _elementwise(_name))
    setattr(Tensor, f"__r{_symbol}__", _elementwise(_name, swapped=True))
Tensor.__neg__ = lambda self: self * -1


@node
class ProducerLoad(PrimExpr):
    """tensor[indices] before the tensor has a buffer."""

    producer: Tensor
    indices: tuple

    @property
    def dtype(self):
        return self.producer.dtype


@node
class CommReducer(Node):
    """A commutative reduction: result(lhs, rhs) with identity elements, one per output."""

    lhs: tuple = node_field(define=True)
    rhs: tuple = node_field(define=True)
    result: tuple = ()
    identity: tuple = ()


@node
class Reduce(PrimExpr):
    """The reduction of `source` over `axis` where `condition` holds; only as a whole compute body.

    init: what it starts from, one value per source; empty for the combiner's identity.
    """

    combiner: CommReducer
    source: tuple
    axis: tuple
    condition: PrimExpr = None
    value_index: int = 0
    init: tuple = ()

    @property
    def dtype(self):
        return self.source[self.value_index].dtype


class _Rewrite(Mutator):
    def __init__(self, mapping, replace):
        self.mapping, self.replace = mapping, replace

    def visit_Var(self, v):
        return self.mapping.get(v, v)

    def visit_ProducerLoad(self, load):
        return self.replace(load.producer, self.visit(load.indices))

    def visit_CommReducer(self, combiner):
        return combiner


def rewritten(root, mapping=None, replace=ProducerLoad):
    """Expressions with the Vars of `mapping` replaced, and each load by replace(tensor, indices); what computes the
    tensors is not descended into."""
    return _Rewrite(mapping or {}, replace).visit(root)


def tensors_read(body):
    """The tensors that expressions read, each once, in order of appearance."""
    found = {}

    def note(tensor, indices):
        found.setdefault(tensor.key, tensor)
        return ProducerLoad(tensor, indices)

    rewritten(tuple(body), None, note)
    return tuple(found.values())
