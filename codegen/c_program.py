"""The trees of a program as C: the statements of NAME_run, of the functions that teams run, and of NAME_init.

Statements are lists of lines without an indent. Templates place them, and what they need around: see `context`.
"""
from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import groupby

from ..ir.expr import IntImm, is_const_int
from ..ir.names import ending
from ..ir.target import MANY_THREADS
from .c_expr import ADDITIVE, EmitError
from .c_names import new_name
from .c_types import C_TYPES, c_comment
from .memory_plan import HOST, scope_of
from .tree import Call, Check, Copy, For, If, Launch, Let, Read, Seq, Wait, While, assigned, walk
from .verify_program import dtype_of, verify

INDENT = " " * 4
INT_MAX = (1 << 31) - 1
MOST_WEIGHT = 48  # letters of a weight's name
_POINTERS = {"w": "const unsigned char *const w = {}->weights;", "m": "unsigned char *const m = {}->memory;",
             "scratch": "unsigned char *const scratch = {}->scratch;"}
# Macros of NAME.c, and what each is made of.
_MACROS = {"TENSOR": "m", "WEIGHT": "w", "FIRST_SCRATCH": "scratch", "OWN_SCRATCH": "scratch"}
# Who runs a Seq of a region -> (the profile's hook, what opens it, what closes it).
_SHARED = {"team": ("INGOT_MARK_TEAM(worker, call.net, {})", [], []),
           "single": ("INGOT_MARK(call.net, {})", ["for (ingot_share once = ingot_once(worker); ingot_take(&once);) {"],
                      ["}", "ingot_wait(worker);"]),
           "first": ("INGOT_MARK(call.net, {})", ["if (ingot_first(worker)) {"], ["}"])}
_ALONE = "INGOT_MARK(net, {})"


@dataclass(frozen=True)
class _Where:
    """The function that statements are printed into. mark: the call of the profile's hook; worker: whether a team runs
    them; memory, weights: where an arena or blob begins, "" for the names that run and regions give it; code: all
    statements so far, without comments and hooks."""

    mark: str = _ALONE
    worker: bool = False
    memory: str = ""
    weights: str = ""
    code: list = field(default_factory=list)


class ProgramPrinter:
    """Prints the program of a CompiledModel. names: {id of a dimension or variable: its C name}; dim_text: prints
    expressions of them; taken: C names that tensors must not have; large: whether places are no ints. Raises
    ProgramError for a program that means nothing, EmitError for what C cannot express."""

    def __init__(self, model, names, dim_text, taken, large=False):
        verify(model.program)
        self.m, self.p, self.names, self.dim_text, self.large = model, model.program, names, dim_text, large
        self.static = not self.p.dims
        self.functions = {k: (name, model.kernels[name].function) for k, name in model.kernel_of.items()}
        self.variables = {names[id(v)]: C_TYPES[v.dtype] for v in assigned(self.p.run)}
        self.buffers, self.tensors = self._buffers(taken)
        self.weights = [new_name(f"{ending(w.name, MOST_WEIGHT)}_at", taken, MOST_WEIGHT + 3) for w in self.p.weights]
        self.macros, self.pointers = dict(_MACROS), dict(_POINTERS)
        starts = self.p.group_starts(model.weight_groups)
        groups = {i: bisect_right(starts, w.offset) - 1 for i, w in enumerate(self.p.weights)}
        self.group_of = groups if len(starts) > 1 else {}
        self.starts = {i: starts[n] for i, n in self.group_of.items()}
        for n in sorted({*self.group_of.values()}):
            self.macros[f"WEIGHT_{n}"] = f"w_{n}"
            self.pointers[f"w_{n}"] = f"const unsigned char *const w_{n} = {self.p.weights_symbol}_{n};"
        for name, _ in model.memories[1:]:
            self.macros[f"IN_{name.upper()}"] = f"m_{name}"
            self.pointers[f"m_{name}"] = f"unsigned char *const m_{name} = {{}}->arena_{name};"
        self.fields, self.regions, self.hooks, self.parts = {}, [], 0, 0

    def _buffers(self, taken):
        """[C name] of the buffers, and {name: declaration, or place in the memory where all places are constant}."""
        names, tensors = [], {}
        for n, b in enumerate(self.p.plan.buffers):
            names.append(name := new_name(b.name, taken))
            offset = self.p.plan.offset(n)
            tensors[name] = f"{name} = {offset.value}" if self.static else (
                f"{C_TYPES[self.p.buffer_dtypes[n]]} *const {name} = (void *)(m + {self.dim_text(offset, ADDITIVE)});")
        return names, tensors

    def context(self, inputs, outputs):
        """The context of the templates. inputs, outputs: a description of each such tensor."""
        self.fields = {**{self.names[id(d)]: f"int64_t {self.names[id(d)]}" for d in self.p.dims},
                       **{name: f"{ctype} {name}" for name, ctype in self.variables.items()},
                       **{t["name"]: f"{t['const']}{t['ctype']} *{t['name']}" for t in inputs},
                       **{t["name"]: f"{t['ctype']} *{t['name']}" for t in outputs}}
        own = _Where()
        run = self._seq(self.p.run, own)
        init = self._seq(self.p.init, _Where("", memory="(*net)->memory", weights="(*net)->weights"))
        used = self._definitions(own)
        lets = [self.names[id(v)] for v, nodes in assigned(self.p.run).items() if isinstance(nodes[0], Let)]
        return {
            "regions": self.regions, "run_lines": run, "init_lines": init,
            "weight_places": self._table(),
            "call_names": [self.functions[c.kernel][0] for c in self.p.calls], "has_tensors": bool(self.tensors),
            "call_fields": list(self.fields.values()), "variables": [f"{self.fields[name]} = 0;" for name in lets],
            "call_values": ", ".join(["net", *("0" if name in self.variables else name for name in self.fields)]),
            "call_kind": "struct" if self.variables else "const struct",
            "run_pointers": [p.format("net") for p in used["pointers"]], "run_tensors": self._places(used["tensors"]),
            "ends_in_region": bool(self.p.run.items) and _is_region(self.p.run.items[-1]),
            "bounded": any(isinstance(n, Let) and n.most is not None for n in walk(self.p.run)),
            "copies": any(isinstance(n, Copy) for tree in (self.p.init, self.p.run) for n in walk(tree)),
        }

    # ------------------------------------------------------------ statements

    def _seq(self, seq, where):
        """The lines of a Seq. Regions have the numbers of the parts that they divide the text into."""
        lines = []
        for in_region, some in groupby(seq.items, key=_is_region):
            for node in some if in_region else [tuple(some)]:
                lines += self._region(node, where) if in_region else self._each(node, where)
                self.parts += 1
        return lines

    def _each(self, nodes, where):
        return [line for node in nodes for line in self.PRINTERS[type(node)](self, node, where)]

    def _call(self, call, where):
        function, printed = self.functions[call.kernel]
        if printed.team and not where.worker:
            raise EmitError(f"threads share kernel {call.kernel}, but its call is in no region; run form_regions first")
        arguments = ["worker"] * printed.team + [self._argument(o, where, printed.team) for o in call.operands]
        text = wrap_call(f"{function}(", [*arguments, *map(self.dim_text, call.dims)], indent=INDENT * 2)
        text = f"if ({text} != NULL) return INGOT_ERR_ASSERT;" if printed.can_fail else text + ";"
        return self._marked(call, text, where)

    def _marked(self, call, text, where):
        """The lines of a call whose C is `text`, with the profile's hook and a comment before it."""
        where.code.append(text)
        mark = ""
        if call.hook and where.mark:
            mark = where.mark.format(self.hooks) + "; "
            self.hooks += 1
        first, *more = text.split("\n")
        return [f"{mark}/* {_comment(call)} */", first, *(line.removeprefix(INDENT) for line in more)]

    def _launch(self, launch, where):
        raise EmitError(f"C has no launch of {launch.kernel}: {launch.memory} memory is a device's, whose dialect it "
                        "needs")

    def _copy(self, copy, where):
        if self.m.weights == "stream" and copy.src.kind == "weight":
            to, size = self._argument(copy.dst, where), copy.bytes.value
            return self._code(where, f"if (net->read(net->reader, {self.weights[copy.src.index]}, {to}, {size}) != 0) "
                                     "return INGOT_ERR_WEIGHTS;")
        dst, src = (self._argument(o, where) for o in (copy.dst, copy.src))
        size = self.dim_text(copy.bytes)
        size = size if isinstance(copy.bytes, IntImm) else f"(size_t)({size})"
        return self._code(where, f"memcpy({dst}, {src}, {size});")

    def _let(self, let, where):
        name, lines = self.names[id(let.dim)], self._assigned(let, where)
        if let.most is None:
            return lines
        most = self.dim_text(let.most, ADDITIVE)
        return lines + self._code(where, f"if ({name} < 0 || {name} > {most}) return INGOT_ERR_DIM;")

    def _assigned(self, let, where):
        """The lines in which the variable of a Let gets its value."""
        value = self._element(let, where) if isinstance(let.value, Read) else self.dim_text(let.value)
        return self._code(where, f"{self.names[id(let.dim)]} = {value};")

    def _check(self, check, where):
        return self._code(where, f"if (!({self.dim_text(check.cond)})) return INGOT_ERR_DIM;")

    def _wait(self, wait, where):
        return self._code(where, "if (net->read(net->reader, 0, NULL, 0) != 0) return INGOT_ERR_WEIGHTS;")

    def _element(self, let, where):
        """The first element of what a Let reads, as the Let's type."""
        place, own = self._argument(let.value.operand, where), C_TYPES[let.dim.dtype]
        ctype = C_TYPES[dtype_of(self.p, let.value.operand)]
        text = f"{place}[0]" if place.isidentifier() else f"*(const {ctype} *)({place})"
        return text if ctype == own else f"({own}){text}"

    def _if(self, node, where):
        lines = self._around(f"if ({self.dim_text(node.cond)})", node.then, where)
        return [*lines[:-1], *self._around("} else", node.otherwise, where)] if node.otherwise.items else lines

    def _while(self, node, where):
        return self._around(f"while ({self.dim_text(node.cond)})", node.body, where)

    def _for(self, node, where):
        name, extent = self.names[id(node.var)], self.dim_text(node.extent, ADDITIVE)
        head = f"for ({C_TYPES[node.var.dtype]} {name} = 0; {name} < {extent}; ++{name})"
        return self._around(head, node.body, where)

    def _around(self, head, body, where):
        return [*self._code(where, head + " {"), *_indented(self._seq(body, where)), "}"]

    @staticmethod
    def _code(where, text):
        where.code.append(text)
        return [text]

    def _region(self, region, where):
        """The statement that starts a team, for which the function that each thread of it runs is printed."""
        code, lines = [], []
        for group in region.items:
            mark, opened, closed = _SHARED[group.threads]
            calls = self._each(group.items, _Where(mark, worker=True, code=code))
            lines += [*opened, *(_indented(calls) if opened else calls), *closed]
        used = self._definitions(_Where(code=code))
        fields = [name for name in self.fields if name in used["words"]]
        self.regions.append({
            "number": self.parts, "lines": lines, "tensors": self._places(used["tensors"]),
            "fields": [_constant(self.fields[name], f"call.{name}") for name in fields],
            "pointers": [p.format("call.net") for p in used["pointers"]]})
        most, room = self.m.team_threads, "(uint32_t)net->threads" if self.p.scratch else "INGOT_TEAM_PARTS"
        few = [f"/* With more than {most} threads, barriers would take longer than threads save: one makes all calls "
               "then. */"]
        return ["", *(few if most < MANY_THREADS else []), *(f"call.{n} = {n};" for n in fields if n in self.variables),
                f"ingot_together({most}, {room}, ingot_run_{self.parts}, &call);", ""]

    # ------------------------------------------------------------ operands

    def _argument(self, o, where, team=False):
        """The C text of an operand, a pointer."""
        if o.kind == "weight":
            if where.weights and self.m.weights == "file":
                raise EmitError(f"init reads weight {o.name}, but weights in a file are given after it: include them")
            inside = o.offset * self.p.weights[o.index].data.itemsize
            place = self.weights[o.index] + ("" if is_const_int(inside, 0) else f" + {self.dim_text(inside, ADDITIVE)}")
            group = f"_{self.group_of[o.index]}" if self.group_of else ""
            start = f"{self.p.weights_symbol}{group}" if group else where.weights
            return f"(const void *)({start} + {place})" if where.weights else f"WEIGHT{group}({place})"
        if o.kind == "scratch":
            return f"{'OWN' if team else 'FIRST'}_SCRATCH({o.index})"
        if o.kind == "arena" and scope_of(self.p.plan.buffers[o.index].memory) != HOST:
            raise EmitError(f"C has no {self.p.plan.buffers[o.index].memory} memory, in which {o.name} lies")
        if o.kind == "arena" and self.static:
            offset = o.offset * self.p.buffer_dtypes[o.index].bytes
            memory = self.p.plan.buffers[o.index].memory.partition(".")[2]
            if where.memory:
                start = f"(*net)->arena_{memory}" if memory else where.memory
                return f"(void *)({start} + {self.dim_text(self.p.plan.offset(o.index) + offset, ADDITIVE)})"
            text = self.dim_text(offset, ADDITIVE)
            text = text if isinstance(offset, IntImm) else f"(size_t)({text})"
            return (f"{f'IN_{memory.upper()}' if memory else 'TENSOR'}({self.buffers[o.index]}"
                    f"{'' if is_const_int(o.offset, 0) else ' + ' + text})")
        name = self.buffers[o.index] if o.kind == "arena" else o.name
        return name if is_const_int(o.offset, 0) else f"{name} + {self.dim_text(o.offset, ADDITIVE)}"

    # ------------------------------------------------------------ definitions

    def _definitions(self, where):
        """The definitions that statements need: their "words", the declarations of "tensors", and the "pointers" to
        the memory `m` and the weights `w`, with {} for the instance."""
        words = set(re.findall(r"\w+", " ".join(where.code)))
        words |= {self.macros[w] for w in words & self.macros.keys()}
        needed = [text for name, text in self.tensors.items() if name in words]
        words |= set(re.findall(r"\w+", " ".join(needed)))
        pointers = [text for name, text in self.pointers.items() if name in words]
        return {"words": words, "tensors": needed, "pointers": pointers}

    def _table(self):
        """The lines that define where weights are: constants of an enumeration, as long as these are ints."""
        rows = [(f"{name} = {w.offset - self.starts.get(i, 0)}",
                 f"{w.data.dtype}[{', '.join(map(str, w.data.shape))}]")
                for i, (name, w) in enumerate(zip(self.weights, self.p.weights))]
        if self.p.weights_bytes > INT_MAX:
            return [f"static const size_t {text}u; /* {what} */" for text, what in rows]
        width = min(max((len(text) for text, _ in rows), default=0) + 1, MOST_WEIGHT + 16)
        lines = [f"    {text + ',' * (n < len(rows)):{width}} /* {what} */" for n, (text, what) in enumerate(rows, 1)]
        return ["enum {", *lines, "};"] if rows else []

    def _places(self, tensors):
        """The lines that define tensors: constant places are those of an enumeration, as long as these are ints."""
        if not self.static or not tensors:
            return tensors
        if self.large:
            return ["/* where each tensor is in the memory */", *(f"static const size_t {t}u;" for t in tensors)]
        lines = [f"    {t}," for t in tensors]
        return ["enum { /* where each tensor is in the memory */", *lines[:-1], lines[-1].removesuffix(","), "};"]


# node class -> the method that prints it; a dialect's printer has its own for some.
ProgramPrinter.PRINTERS = {
    Call: ProgramPrinter._call, Launch: ProgramPrinter._launch, Copy: ProgramPrinter._copy, Let: ProgramPrinter._let,
    If: ProgramPrinter._if, While: ProgramPrinter._while, For: ProgramPrinter._for, Seq: ProgramPrinter._seq,
    Check: ProgramPrinter._check, Wait: ProgramPrinter._wait}


def _is_region(node):
    return isinstance(node, Seq) and node.threads == "region"


def _indented(lines):
    return [INDENT + line if line else line for line in lines]


def _comment(call):
    """Describe the computation of a call as the text of a C comment."""
    return c_comment(call.comment)


def _constant(declaration, value):
    """A declared variable as a constant with its value."""
    kind, name = re.fullmatch(r"(.*?)(\w+)", declaration).groups()
    return f"{kind}const {name} = {value};" if kind.endswith("*") else f"const {kind}{name} = {value};"


def wrap_call(head, arguments, indent="    ", width=106):
    """A call as text of lines of about `width` letters."""
    lines, current = [], head
    for n, a in enumerate(arguments):
        piece = a + (", " if n + 1 < len(arguments) else ")")
        if len(current) + len(piece) > width:
            lines.append(current.rstrip())
            current = indent
        current += piece
    return "\n".join([*lines, current if arguments else head + ")"])
