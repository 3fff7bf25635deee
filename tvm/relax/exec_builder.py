"""relax.ExecBuilder: programs of the virtual machine written instruction by instruction.

Nothing here compiles to such programs (vm.py says why): they call packed functions and each other on registers.
"""
from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial

import numpy as np

from ...ir.dtype import DataType
from ...runtime.builtins import plain
from ...runtime.machine import FitError, ShapeTuple, as_value
from ...runtime.ndarray import NDArray
from ...runtime.registry import get_global_func

_NAMES = {"register": "%{}", "immediate": "i{}", "constant": "c[{}]", "function": "f[{}]"}
_SPECIAL = {"void": "void", "state": "vm"}


class VMFuncKind(IntEnum):
    """What a name of a program is: a packed function, or one of its own."""

    PACKED_FUNC = 0
    VM_FUNC = 1


@dataclass(frozen=True)
class Arg:
    """An argument of an instruction: kind is a key of _NAMES, or "special"."""

    kind: str
    value: object

    def __str__(self):
        return _SPECIAL[self.value] if self.kind == "special" else _NAMES[self.kind].format(self.value)


@dataclass(frozen=True)
class Step:
    """An instruction. op: "call" of `name`, "ret" of args[0], "goto", or "if", which goes on where args[0] is true;
    offset: how many instructions further else."""

    op: str
    name: str = ""
    args: tuple = ()
    dst: Arg = None
    offset: int = 0

    def __str__(self):
        args = ", ".join(map(str, self.args))
        return {"call": f"call  {self.name:<16} in: {args:<12} dst: {self.dst}", "ret": f"ret   {args}",
                "goto": f"goto  {self.offset}", "if": f"If    {args}, {self.offset}"}[self.op]


@dataclass
class Code:
    """A function of a program: how many registers are arguments, their names, instructions."""

    inputs: int
    names: tuple
    steps: list = field(default_factory=list)
    ended: bool = False


class ExecBuilder:
    """Usage:

        ib = relax.ExecBuilder()
        with ib.function("main", num_inputs=2):
            ib.emit_call("test.vm.add", args=[ib.r(0), ib.r(1)], dst=ib.r(2))
            ib.emit_ret(ib.r(2))
        vm = relax.VirtualMachine(ib.get(), tvm.cpu())
    """

    def __init__(self):
        self.graphs = None  # the module that relax.vm_build._vmcodegen hands to _vmlink
        self._code, self._constants, self._declared, self._open = {}, [], {}, None

    # ------------------------------------------------------------ arguments

    def r(self, idx):
        """A register."""
        return Arg("register", idx)

    def imm(self, value):
        """A number."""
        return Arg("immediate", value)

    def c(self, idx):
        """A constant, by its number."""
        return Arg("constant", idx)

    def f(self, name):
        """A function of the program, or one that is declared. ValueError where there is none."""
        if name not in self._code and name not in self._declared:
            raise ValueError(f"cannot find function {name}: there are {', '.join(self._code) or 'none'}")
        return Arg("function", name)

    def void_arg(self):
        """No register."""
        return Arg("special", "void")

    def vm_state(self):
        """The machine itself, which some packed functions take."""
        return Arg("special", "state")

    def convert_constant(self, const):
        """A number as it is; another value as a constant, equal ones as one."""
        if isinstance(const, int) and not isinstance(const, bool):
            return self.imm(const)
        for n, known in enumerate(self._constants):
            if _equal(known, const):
                return self.c(n)
        self._constants.append(const)
        return self.c(len(self._constants) - 1)

    # ------------------------------------------------------------ functions and instructions

    def declare_function(self, func_name, kind=VMFuncKind.PACKED_FUNC):
        """Say what a name is. ValueError where it is another thing already."""
        known = VMFuncKind.VM_FUNC if func_name in self._code else self._declared.setdefault(func_name, kind)
        if known != kind:
            raise ValueError(f"function {func_name} is declared as another kind already, {known.name}")

    @contextmanager
    def function(self, func_name, num_inputs=0, param_names=None):
        """The function of which what is emitted in this block is."""
        if func_name in self._code:
            raise ValueError(f"function {func_name} is defined already")
        names = tuple(param_names or (f"arg{k}" for k in range(num_inputs)))
        if len(names) != num_inputs:
            raise ValueError(f"function {func_name} takes {num_inputs} arguments, and {len(names)} names are given")
        outer, self._open = self._open, Code(num_inputs, names)
        self._code[func_name] = self._open
        try:
            yield self
        finally:
            self._open.ended, self._open = True, outer

    def _emit(self, step):
        if self._open is None:
            raise ValueError("emit should happen in a function scope: with ib.function(name):")
        self._open.steps.append(step)

    def emit_call(self, name, args=None, dst=None):
        """Call a packed function, or one of the program. Shapes (tuples), NDArrays and dtypes become constants."""
        given = []
        for a in args or ():
            a = ShapeTuple(a) if type(a) is tuple else as_value(a) if isinstance(a, np.ndarray) else a
            given.append(a if isinstance(a, Arg) else self.convert_constant(a))
        self._emit(Step("call", name, tuple(given), dst or self.void_arg()))

    def emit_ret(self, result):
        """Give a register's value."""
        self._emit(Step("ret", args=(result,)))

    def emit_goto(self, pc_offset):
        """Go on so many instructions further, or before. ValueError for 0."""
        if pc_offset == 0:
            raise ValueError("a goto of 0 instructions never ends")
        self._emit(Step("goto", offset=pc_offset))

    def emit_if(self, cond, false_offset):
        """Go on with the next instruction where a register is true, else so many further.
        ValueError for less than 2."""
        if false_offset < 2:
            raise ValueError("an if leaves out the next instruction where it does not hold; "
                             f"the offset is {false_offset}")
        self._emit(Step("if", args=(cond,), offset=false_offset))

    def get(self):
        """The Bytecode of the functions. ValueError for registers, constants or offsets that there are not."""
        for name, code in self._code.items():
            _check(name, code, len(self._constants))
        return Bytecode({n: _in_order(c) for n, c in self._code.items()}, tuple(self._constants))


def _equal(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, NDArray):
        return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
    return a.hex() == b.hex() if isinstance(a, float) else a == b


def _check(name, code, constants):
    defined = set(range(code.inputs))  # before an instruction, in their order
    if not code.steps or code.steps[-1].op not in ("ret", "goto"):
        raise ValueError(f"function {name} ends without emit_ret")
    for n, step in enumerate(code.steps):
        for a in step.args:
            if a.kind == "register" and a.value not in defined:
                raise ValueError(f"{name}: register {a.value} is used by instruction {n}, {step}, "
                                 "and not defined before")
            if a.kind == "constant" and not 0 <= a.value < constants:
                raise ValueError(f"{name}: there is no constant {a.value}")
        if step.op in ("goto", "if") and not 0 <= n + step.offset < len(code.steps):
            raise ValueError(f"{name}: instruction {n}, {step}, leaves the function")
        if step.op == "call" and step.dst.kind == "register":
            defined.add(step.dst.value)


def _in_order(code):
    """The function with registers numbered in the order in which they are defined, behind the arguments."""
    numbers = {n: n for n in range(code.inputs)}

    def renamed(arg):
        if arg is None or arg.kind != "register":
            return arg
        return Arg("register", numbers.setdefault(arg.value, len(numbers)))
    steps = []
    for s in code.steps:
        args = tuple(map(renamed, s.args))
        steps.append(replace(s, args=args, dst=renamed(s.dst)))
    return replace(code, steps=steps)


class Bytecode:
    """A program of the virtual machine, which VirtualMachine runs."""

    def __init__(self, code, constants):
        self.code, self.constants = code, constants
        self.parameters = {n: list(c.names) for n, c in code.items()}

    @property
    def mod(self):
        """What VirtualMachine takes; itself."""
        return self

    def require(self, name):
        """Raise AttributeError unless there is a function `name`."""
        if name not in self.code:
            raise AttributeError(f"there is no function {name!r}; there is {', '.join(self.code) or 'none'}")

    def function(self, name):
        """What calls a function."""
        self.require(name)
        return partial(self._run, name)

    def as_text(self):
        """The functions, an instruction a line."""
        return "\n".join("\n".join([f"@{n}:", *(f"  {s}" for s in c.steps), ""]) for n, c in self.code.items())

    def stats(self):
        """How many functions, instructions and constants there are."""
        return (f"{len(self.code)} functions of {sum(len(c.steps) for c in self.code.values())} instructions, "
                f"{len(self.constants)} constants")

    def _run(self, name, *args):
        code, at = self.code[name], 0
        if len(args) != code.inputs:
            raise FitError(f"{name} takes {code.inputs} arguments, got {len(args)}")
        registers = dict(enumerate(map(as_value, args)))
        while True:
            step = code.steps[at]
            values = [self._value(a, registers) for a in step.args]
            if step.op == "ret":
                return values[0]
            if step.op == "call":
                function = self.function(step.name) if step.name in self.code else get_global_func(step.name)
                result = as_value(function(*values))
                if step.dst.kind == "register":
                    registers[step.dst.value] = result
            leaps = step.op == "goto" or step.op == "if" and not np.asarray(plain(values[0]))
            at += step.offset if leaps else 1

    def _value(self, arg, registers):
        if arg.kind == "register":
            return registers[arg.value]
        if arg.kind == "constant":
            value = self.constants[arg.value]
            return str(value) if isinstance(value, DataType) else value
        if arg.kind == "function":
            return self.function(arg.value) if arg.value in self.code else get_global_func(arg.value)
        return arg.value if arg.kind == "immediate" else self


__all__ = ["Bytecode", "ExecBuilder", "VMFuncKind"]
