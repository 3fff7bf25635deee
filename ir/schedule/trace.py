"""The trace: which primitives were applied to what, as data. It prints as Python and replays on another schedule."""
from __future__ import annotations

import json
from dataclasses import dataclass

from ..expr import PrimExpr
from ..node import Node, load_json, save_json
from ..script import highlight
from ..tir.index_map import IndexMap
from .errors import ScheduleError
from .handles import HANDLE_TYPES, RV, DerivedRV, handles_in, map_handles
from .table import PRIMITIVES


@dataclass(frozen=True)
class InstructionKind:
    """The kind of an instruction: name, such as "GetBlock" of get_block; is_pure: whether it changes no program."""

    name: str
    is_pure: bool

    @staticmethod
    def get(name):
        """The kind of that name. Raises ValueError when there is none."""
        known = {_camel(p): InstructionKind(_camel(p), row.is_pure) for p, row in PRIMITIVES.items()}
        if name not in known:
            raise ValueError(f"no instruction is called {name!r}; known: {', '.join(sorted(known))}")
        return known[name]


def _camel(name):
    return "".join(part.title() for part in name.split("_"))


@dataclass(frozen=True, eq=False)
class Instruction:
    """One applied primitive: `args` are (name, value) pairs, in which handles stand for themselves; what a sampling
    decided is kept by the Trace.

    outputs: the handles it returned; listed: whether it returned them as a list.
    """

    name: str
    args: tuple
    outputs: tuple
    listed: bool
    variadic: str = ""  # the argument that is passed as *args

    @property
    def kind(self):
        """The InstructionKind: the primitive's name as TVM's traces have it, and whether it is_pure."""
        return InstructionKind(_camel(self.name), PRIMITIVES[self.name].is_pure)

    @property
    def inputs(self):
        """The handles among the arguments, in order."""
        return [h for _, value in self.args for h in handles_in(value)]

    @property
    def attrs(self):
        """The arguments that hold no handle, in order."""
        return [value for _, value in self.args if not handles_in(value)]


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
            args = {name: map_handles(value, known.__getitem__) for name, value in inst.args}
            if inst in self.decisions:
                decision = self.decisions[inst]
                if decision_provider is not None:
                    inputs = [h for value in args.values() for h in handles_in(value)]
                    decision = decision_provider(inst, inputs, inst.attrs, decision)
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
                used.update(inst.inputs)
        return Trace(reversed(kept), {i: self.decisions[i] for i in kept if i in self.decisions})

    # ------------------------------------------------------------ as JSON

    def as_json(self, remove_postproc=False):
        """The trace as lists, texts and numbers: [[[primitive, {argument: value}, [names of outputs]], ...],
        [[position, decision], ...]]. Inverse of from_json."""
        names, rows, decisions = {}, [], []
        for inst in self._wanted(remove_postproc):
            args = {name: _to_json(value, names) for name, value in inst.args}
            if inst in self.decisions:
                decisions.append([len(rows), _to_json(self.decisions[inst], names)])
            rows.append([inst.name, args, _named(inst.outputs, names)])
        return [rows, decisions]

    @staticmethod
    def from_json(saved):
        """The trace of what as_json gave, or of its text. Raises ValueError when it is none."""
        known, trace = {}, Trace()
        try:
            rows, decisions = json.loads(saved) if isinstance(saved, str) else saved
            decided = {position: _from_json(value, known) for position, value in decisions}
            for position, (name, args, outputs) in enumerate(rows):
                primitive = PRIMITIVES[name]
                if set(args) != set(primitive.kinds) - {"decision"}:
                    raise ValueError(f"{name} takes {', '.join(primitive.kinds)}, not {', '.join(args)}")
                args = tuple((key, _from_json(value, known)) for key, value in args.items())
                known.update((o, HANDLE_TYPES[o[0]]()) for o in outputs)
                handles = tuple(known[o] for o in outputs)
                trace.append(Instruction(name, args, handles, primitive.listed, primitive.variadic),
                             decided.get(position))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ValueError(f"not a saved trace: {error!r}") from error
        return trace

    @staticmethod
    def apply_json_to_schedule(json_obj, sch):
        """Apply a trace saved by as_json; as apply_to_schedule."""
        return Trace.from_json(json_obj).apply_to_schedule(sch)

    # ------------------------------------------------------------ as Python

    def as_python(self, remove_postproc=False):
        """The trace as lines of Python, which apply it to a schedule called `sch`."""
        names, lines = {}, []
        for inst in self._wanted(remove_postproc):
            args = [", ".join(_text(v, names) for v in value) if name == inst.variadic else
                    f"{name}={_text(value, names)}" for name, value in inst.args]
            if inst in self.decisions:
                args.append(f"decision={_text(self.decisions[inst], names)}")
            targets = ", ".join(_named(inst.outputs, names))
            if inst.listed and len(inst.outputs) == 1:
                targets += ","
            lines.append((f"{targets} = " if inst.outputs else "") + f"sch.{inst.name}({', '.join(args)})")
        return lines

    def __str__(self):
        return "\n".join(self.as_python())

    def show(self):
        """Print the trace, coloured on a terminal."""
        highlight.show(str(self))


def _named(handles, names):
    """Enter new handles in `names` ({handle: name}); returns their names."""
    for handle in handles:
        names[handle] = f"{handle.prefix}{len(names)}"
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


def _to_json(value, names):
    if isinstance(value, DerivedRV):
        return {"op": value.op, "of": [_to_json(value.a, names), _to_json(value.b, names)]}
    if isinstance(value, RV):
        return {"handle": names[value]}
    if isinstance(value, Node):
        return {"node": save_json(value)}
    if isinstance(value, dict):
        return {"dict": {key: _to_json(v, names) for key, v in value.items()}}
    return [_to_json(v, names) for v in value] if isinstance(value, tuple) else value


def _from_json(value, known):
    if isinstance(value, list):
        return tuple(_from_json(v, known) for v in value)
    if not isinstance(value, dict):
        return value
    if "op" in value:
        return DerivedRV(value["op"], *_from_json(value["of"], known))
    if "dict" in value:
        return {key: _from_json(v, known) for key, v in value["dict"].items()}
    return known[value["handle"]] if "handle" in value else load_json(value["node"])
