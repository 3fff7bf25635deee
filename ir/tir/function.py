"""PrimFunc: a function over buffers, the unit that is scheduled, lowered and printed as one C function."""
from __future__ import annotations

from functools import wraps

from ..dtype import DataType
from ..expr import Call, IntImm, Var, const
from ..module import BaseFunc
from ..node import collect, node, node_field
from ..upper import upper
from .buffer import Buffer
from .specialize import specialize
from .stmt import Block, BlockRealize, DeclBuffer, Stmt


@node
class PrimFunc(BaseFunc):
    """params: handles and scalars; buffer_map: {handle: Buffer}, whose shapes may define symbolic dimensions.

    body: before lowering, the BlockRealize of a block named "root". attrs: "global_symbol", "origin" (the tuple of
    model nodes it computes), "schedule" (text of its trace), "refused" (rules that did not fit), "num_outputs".
    signature: of a lowered function, the Buffers and scalar Vars that callers see, as they were before buffers became
    flat.
    """

    params: tuple = node_field(define=True)
    buffer_map: dict = node_field(define=True, default_factory=dict)
    body: Stmt = None
    attrs: dict = node_field(default_factory=dict)
    signature: tuple = node_field(default=(), ignore=True)

    def __post_init__(self):
        flags = {k: bool(v.value) for k, v in self.attrs.items() if isinstance(v, IntImm) and v.dtype == "bool"}
        if flags:  # T.bool(True) is what TVM's printers write for True
            object.__setattr__(self, "attrs", {**self.attrs, **flags})

    @property
    def title(self):
        """How errors name the function: by the model nodes that it computes, else by its symbol."""
        nodes = list(dict.fromkeys(str(o) for o in self.attrs.get("origin") or ()))
        more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
        return f"the kernel of {' + '.join(nodes[:3])}{more}" if nodes else (
            f"the function {self.attrs.get('global_symbol', 'main')}")

    @property
    def __name__(self):
        """The name of the decorated function, where it has a symbol."""
        if "global_symbol" not in self.attrs:
            raise AttributeError("a private PrimFunc has no name of its own; its module has one for it")
        return str(self.attrs["global_symbol"])

    @property
    def struct_info(self):
        """The FuncStructInfo of what graphs see: buffers are tensors; pure where nothing but the result is left behind."""
        return upper("prim_func_info")(self)

    @property
    def buffers(self):
        """The parameters' buffers in declared order."""
        return [self.buffer_map[p] for p in self.params if p in self.buffer_map]

    @property
    def root(self):
        """The root block; TypeError once the function is lowered."""
        if not (isinstance(self.body, BlockRealize) and not self.body.block.iter_vars):
            raise TypeError("the function has no root block: it is lowered or malformed")
        return self.body.block

    def views(self):
        """{id of a data pointer: the buffers over it that are used, not defined}, as T.Buffer(..., data=A.data) is."""
        defined = set(map(id, self.buffer_map.values()))
        for n in collect(self.body, (Block, DeclBuffer)):
            own = [n.buffer] if isinstance(n, DeclBuffer) else [*n.alloc_buffers, *(m.buffer for m in n.match_buffers)]
            defined.update(map(id, own))
        found = {}
        for b in collect(self.body, Buffer):
            if id(b) not in defined and b.data is not None:
                found.setdefault(id(b.data), []).append(b)
        return found

    def with_root_body(self, body, alloc_buffers=None):
        """The function with another body (and allocations) inside its root block."""
        root = self.root
        allocs = root.alloc_buffers if alloc_buffers is None else tuple(alloc_buffers)
        return self.replace(body=self.body.replace(block=root.replace(body=body, alloc_buffers=allocs)))

    @property
    def ret_type(self):
        """The dtype of what tir.ret returns; "void" without one."""
        found = [c.dtype for c in collect(self.body, Call) if c.op == "tir.ret"]
        return found[0] if found else DataType("void")

    def with_body(self, body):
        return self.replace(body=body)

    def specialize(self, param_map):
        """The function for some values of its parameters; see tir.specialize."""
        return specialize(self, param_map)

    def script(self, **options):
        """The function in script syntax; options: see script.script."""
        return upper("script")(self, **options)

    def __str__(self):
        return self.script()

    def show(self, style=None, black_format=None, **options):
        """Print the function's script, coloured on a terminal."""
        upper("show")(self.script(**options), style=style)


def _in_either_order(init):
    """PrimFunc(params, buffer_map, body, attrs), and TVM's PrimFunc(params, body, ret_type, buffer_map, attrs), in
    which parameters may be Buffers."""
    @wraps(init)
    def made(self, params, *args, **fields):
        if (args and isinstance(args[0], Stmt)) or not args and "ret_type" in fields:
            given = dict(zip(("body", "ret_type", "buffer_map", "attrs", "span"), args), **fields)
            buffer_map = dict(given.get("buffer_map") or {})
            params = [p.asobject() if hasattr(p, "asobject") else p for p in params]  # a builder's
            handles = [Var(p.name, "handle") if isinstance(p, Buffer) else p for p in params]
            buffer_map.update((h, p) for h, p in zip(handles, params) if isinstance(p, Buffer))
            return init(self, tuple(handles), buffer_map, given["body"], dict(given.get("attrs") or {}))
        return init(self, params, *args, **fields)
    return made


PrimFunc.__init__ = _in_either_order(PrimFunc.__init__)


def prim_func(params, body, attrs=None, alloc_buffers=()):
    """A PrimFunc of Buffers (bound to fresh handles) and scalar Vars, its body wrapped in a root block."""
    handles, buffer_map = [], {}
    for p in params:
        if isinstance(p, Var):
            handles.append(p)
        else:
            handle = Var(p.name, "handle")
            handles.append(handle)
            buffer_map[handle] = p
    root = Block((), (), (), "root", tuple(alloc_buffers), (), {}, None, body)
    return PrimFunc(tuple(handles), buffer_map, BlockRealize((), const(True), root), dict(attrs or {}))
