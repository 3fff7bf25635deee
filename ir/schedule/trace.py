"""The trace: which primitives were applied to what, as data. It prints as Python and replays on another schedule."""
from __future__ import annotations

import json
from dataclasses import dataclass

from ..expr import PrimExpr, Var, free_vars
from ..node import Node, collect, load_json, save_json
from ..script import highlight
from ..tir.index_map import IndexMap
from .errors import ScheduleError
from .handles import HANDLE_TYPES, RV, DerivedRV, handles_in, map_handles
from .table import PRIMITIVES


@dataclass(frozen=True, eq=False, repr=False)
class InstructionKind:
    """The kind of an instruction: name, such as "GetBlock" of get_block; is_pure: whether it changes no program;
    primitive: its row of the table."""

    name: str
    is_pure: bool
    primitive: object

    @staticmethod
    def get(name):
        """The kind of that name, always one object. Raises ValueError when there is none."""
        known = {row.kind.name: row.kind for row in PRIMITIVES.values()}
        if name not in known:
            raise ValueError(f"no instruction is called {name!r}; known: {', '.join(sorted(known))}")
        return known[name]

    def same_as(self, other):
        """Whether both are one object."""
        return self is other

    def __repr__(self):
        return f"InstructionKind({self.name})"


class Instruction:
    """One applied primitive. kind: its InstructionKind; inputs: the handles that it takes, and what may stand for a
    handle, lists one by one; attrs: its other arguments; outputs: the handles that it returned. What a sampling
    decided is kept by the Trace.

    Raises ValueError for arguments that the kind does not take.
    """

    __slots__ = ("kind", "args", "outputs")

    def __init__(self, kind, inputs, attrs, outputs):
        self.kind, self.outputs = kind, tuple(outputs)
        row = kind.primitive
        self.args = tuple(row.check(row.join(inputs, attrs)).items())  # (argument, value), as methods take them

    @classmethod
    def of(cls, kind, args, outputs):
        """The Instruction of {argument: value} in trace form."""
        inst = cls.__new__(cls)
        inst.kind, inst.args, inst.outputs = kind, tuple(args.items()), tuple(outputs)
        return inst

    @property
    def name(self):
        """The name of the primitive, and of Schedule's method."""
        return self.kind.primitive.name

    @property
    def listed(self):
        """Whether the outputs were returned as a list."""
        return self.kind.primitive.listed

    @property
    def inputs(self):
        """The arguments that handles may be in, in order."""
        return list(self.kind.primitive.split(dict(self.args))[0])

    @property
    def attrs(self):
        """The other arguments, in order."""
        return list(self.kind.primitive.split(dict(self.args))[1])

    @property
    def handles(self):
        """The handles among the inputs, in order."""
        return [h for value in self.inputs for h in handles_in(value)]

    def as_python(self, names, decision=None):
        """The line of Python that applies it to a schedule called `sch`. names: {handle: name}, which gains those of
        the outputs; a handle that is not there is "_"."""
        variadic = self.kind.primitive.variadic
        args = [", ".join(_text(v, names) for v in value) if name == variadic else f"{name}={_text(value, names)}"
                for name, value in self.args]
        if decision is not None:
            args.append(f"decision={_text(decision, names)}")
        targets = ", ".join(_named(self.outputs, names)) + "," * (self.listed and len(self.outputs) == 1)
        return (f"{targets} = " if self.outputs else "") + f"sch.{self.name}({', '.join(args)})"

    def same_as(self, other):
        """Whether both are one object."""
        return self is other

    def __str__(self):
        return self.as_python(dict.fromkeys(self.outputs, "_"))


class Trace:
    """insts: the Instructions in order; decisions: {Instruction: what it decided}, of those that sample."""

    def __init__(self, insts=(), decisions=None):
        self.insts, self.decisions = list(insts), dict(decisions or {})

    def append(self, inst, decision=None):
        """Add an instruction at the end."""
        self.insts.append(inst)
        if decision is not None:
            self.decisions[inst] = decision

    def pop(self):
        """Take off the last instruction and return it; None when there is none."""
        if not self.insts:
            return None
        inst = self.insts.pop()
        self.decisions.pop(inst, None)
        return inst

    def copy(self):
        return Trace(self.insts, self.decisions)

    def __len__(self):
        return len(self.insts)

    def __iter__(self):
        return iter(self.insts)

    def get_decision(self, inst):
        """The decision of an instruction of the trace; None for one that does not sample."""
        return self.decisions.get(inst)

    def with_decision(self, inst, decision, remove_postproc):
        """The trace with another decision for one of its instructions, which must be one that samples."""
        if inst not in self.decisions:
            raise ValueError("with_decision: inst is no sampling instruction of this trace")
        kept = self._wanted(remove_postproc)
        return Trace(kept, {i: decision if i is inst else d for i, d in self.decisions.items() if i in kept})

    def apply_to_schedule(self, sch, remove_postproc=False, decision_provider=None):
        """Apply every instruction to `sch`; handles map by position. Raises ScheduleError where a step is illegal.

        remove_postproc: stop at enter_postproc. decision_provider(inst, inputs, attrs, decision) -> the decision to
        take, asked for each instruction that samples. Returns {handle of this trace: handle of `sch`}.
        """
        known = {}
        for inst in self._wanted(remove_postproc):
            args = {name: map_handles(value, lambda h: known.get(h, h)) for name, value in inst.args}
            if "decision" in inst.kind.primitive.kinds:  # one that samples
                decision = self.decisions.get(inst)
                if decision_provider is not None:
                    decision = decision_provider(inst, list(inst.kind.primitive.split(args)[0]), inst.attrs, decision)
                args["decision"] = decision
            result = sch.apply(inst.name, args)
            outputs = result if inst.listed else [] if result is None else [result]
            if len(outputs) != len(inst.outputs):
                raise ScheduleError(inst.name, "", f"it returned {len(outputs)} handles where the trace has "
                                    f"{len(inst.outputs)}", "the trace is of another program")
            known.update(zip(inst.outputs, outputs))
        return known

    apply = apply_to_schedule

    def _wanted(self, remove_postproc):
        """The instructions, up to enter_postproc when the rest is to be left out."""
        names = [inst.name for inst in self.insts]
        end = names.index("enter_postproc") if remove_postproc and "enter_postproc" in names else len(names)
        return self.insts[:end]

    def simplified(self, remove_postproc=False):
        """The trace without steps that only ask or sample and whose outputs nothing uses."""
        used, kept = set(), []
        for inst in reversed(self._wanted(remove_postproc)):
            if not inst.kind.is_pure or any(h in used for h in inst.outputs):
                kept.append(inst)
                used.update(inst.handles)
        return Trace(reversed(kept), {i: self.decisions[i] for i in kept if i in self.decisions})

    # ------------------------------------------------------------ as JSON

    def as_json(self, remove_postproc=False):
        """The trace as lists, texts and numbers: [[[kind, inputs, attrs, names of outputs], ...],
        [[position, decision], ...]]. Inputs are names of outputs; texts among them stand in quotes. Inverse of
        from_json."""
        names, rows, decisions = {}, [], []
        for inst in self._wanted(remove_postproc):
            inputs = [_to_json(value, names, json.dumps) for value in inst.inputs]
            attrs = [_to_json(value, names) for value in inst.attrs]
            if inst in self.decisions:
                decisions.append([len(rows), _to_json(self.decisions[inst], names)])
            rows.append([inst.kind.name, inputs, attrs, _named(inst.outputs, names)])
        return [rows, decisions]

    @staticmethod
    def from_json(saved):
        """The trace of what as_json gave, or of its text. Raises ValueError when it is none."""
        known, trace = {}, Trace()
        try:
            rows, decisions = json.loads(saved) if isinstance(saved, str) else saved
            decided = {position: _from_json(value, known) for position, value in decisions}
            for position, (name, inputs, attrs, outputs) in enumerate(rows):
                inputs = [_from_json(value, known, True) for value in inputs]
                known.update((o, HANDLE_TYPES[o[0]]()) for o in outputs)
                trace.append(Instruction(InstructionKind.get(name), inputs, [_from_json(v, known) for v in attrs],
                                         [known[o] for o in outputs]), decided.get(position))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ValueError(f"not a saved trace: {error!r}") from error
        return trace

    @staticmethod
    def apply_json_to_schedule(json_obj, sch):
        """Apply a trace saved by as_json; as apply_to_schedule."""
        return Trace.from_json(json_obj).apply_to_schedule(sch)

    # ------------------------------------------------------------ as Python

    def as_python(self, remove_postproc=False):
        """The trace as lines of Python, which apply it to a schedule called `sch`; first those that define the variables
        of the program which it names: a step takes that of the program for one of its name."""
        names, insts = {}, self._wanted(remove_postproc)
        return [*(f"{v.name} = tir.Var({json.dumps(v.name)}, {json.dumps(v.dtype)})" for v in _free_vars(insts)),
                *(inst.as_python(names, self.decisions.get(inst)) for inst in insts)]

    def __str__(self):
        lines = self.as_python() or ["pass"]
        return "\n".join(["# from tvm import tir", "def apply_trace(sch: tir.Schedule) -> None:",
                          *(f"  {line}" for line in lines)])

    def show(self, style=None, black_format=False):  # lines are as black leaves them
        """Print the trace, coloured on a terminal unless style is "none"."""
        highlight.show(str(self), style=style)


def _free_vars(insts):
    """The variables of the program that arguments are made of, one of each name."""
    values = [[v for _, v in inst.args] for inst in insts]
    own = {v for m in collect(values, IndexMap) for v in m.initial_indices}
    return list({(v.name, v.dtype): v for v in free_vars(values) if v not in own}.values())


def _named(handles, names):
    """Enter new handles in `names` ({handle: name}); returns their names."""
    for handle in handles:
        names.setdefault(handle, f"{getattr(handle, 'prefix', 'v')}{len(names)}")
    return [names[h] for h in handles]


def _text(value, names):
    if isinstance(value, DerivedRV):
        return f"({_text(value.a, names)} {value.op} {_text(value.b, names)})"
    if isinstance(value, RV):
        return names.get(value, "_")
    if isinstance(value, tuple):
        return "[" + ", ".join(_text(v, names) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(k, names)}: {_text(v, names)}" for k, v in value.items()) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return str(value) if isinstance(value, (IndexMap, PrimExpr)) else repr(value)


def _to_json(value, names, text=str):
    """What stands for a value; text(value): for a text."""
    if isinstance(value, DerivedRV):
        return {"op": value.op, "of": [_to_json(value.a, names, text), _to_json(value.b, names, text)]}
    if isinstance(value, RV) or isinstance(value, Var) and value in names:
        return names[value]
    if isinstance(value, Node):
        return {"node": save_json(value)}
    if isinstance(value, dict):
        return {"dict": {key: _to_json(v, names, text) for key, v in value.items()}}
    if isinstance(value, str):
        return text(value)
    return [_to_json(v, names, text) for v in value] if isinstance(value, (tuple, list)) else value


def _from_json(value, known, handles=False):
    """The value that JSON stands for; handles: whether a text names a handle, unless it stands in quotes."""
    if isinstance(value, list):
        return tuple(_from_json(v, known, handles) for v in value)
    if isinstance(value, str) and handles:
        return json.loads(value) if value.startswith('"') else known[value]
    if not isinstance(value, dict):
        return value
    if "op" in value:
        return DerivedRV(value["op"], *_from_json(value["of"], known, handles))
    if "dict" in value:
        return {key: _from_json(v, known, handles) for key, v in value["dict"].items()}
    return load_json(value["node"])
