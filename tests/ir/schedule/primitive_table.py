"""Rows of the tests of primitives: what a step makes of a program, and what it refuses.

LEGAL rows: name: (program, step, body). `step` is applied to a Schedule of the program; the result must print as the
body does after the program's own header, names included, replay from its trace, and compute the same numbers. A line
"block B" of a body stands for block B as the program has it, "nest B" for it with its loops.
REFUSED rows: (program, step, message): the step must raise a ScheduleError whose line holds the message.
"""
import re
import textwrap
from itertools import takewhile

import pytest

from ingot.ir.node import structural_equal
from ingot.ir.schedule import Schedule, ScheduleError
from ingot.script import from_source
from schedule_programs import assert_same

SIZES = {"n": 7, "m": 5}


def check_legal(program, step, body):
    """Structure, replay and numbers of one row."""
    sch = Schedule(program, error_render_level="fast")
    step(sch)
    assert sch.func.script() == from_source(_with_body(program, body)).script()
    again = Schedule(program)
    sch.trace.apply(again)
    assert structural_equal(again.func, sch.func)
    assert_same(program, sch.func, SIZES)


def _with_body(program, body):
    """The text of the program with another body; what declares its attributes, sizes and buffers stays."""
    lines = [line for line in program.script().splitlines() if not re.match(r" *T\.(reads|writes)\(", line)]
    start = next(n for n, line in enumerate(lines) if line.strip().startswith(("for ", "with ")))
    header = [line for line in lines[:start] if "T.alloc_buffer(" not in line]
    body = re.sub(r"(?m)^( *)(block|nest) (\w+)$", lambda m: textwrap.indent(_stated(lines, m[2], m[3]), m[1]), body)
    return "\n".join([*header, textwrap.indent(textwrap.dedent(body).strip(), "    ")]) + "\n"


def _stated(lines, what, name):
    """The text of a block in the lines of a program, or of its nest, which lies in the body of the function."""
    first = next(n for n, line in enumerate(lines) if f'T.block("{name}")' in line)
    if what == "nest":
        first = max(n for n in range(first) if re.match(r" {4}\S", lines[n]))
    depth = len(lines[first]) - len(lines[first].lstrip())
    rest = takewhile(lambda line: line.startswith(" " * (depth + 1)), lines[first + 1:])
    return textwrap.dedent("\n".join([lines[first], *rest]))


def refusal(program, step):
    """The ScheduleError of one row, with its traceback."""
    sch = Schedule(program, error_render_level="fast")
    try:
        step(sch)
    except ScheduleError as error:
        return error
    raise AssertionError(f"not refused:\n{sch.func.script()}")


def check_refused(program, step, message):
    """One row: the message, in its fast form."""
    line = str(refusal(program, step))
    assert message in line, line


def table_tests(legal, refused):
    """(test_legal, test_refused) of a file's two tables."""
    @pytest.mark.parametrize("name", legal)
    def test_legal(name):
        check_legal(*legal[name])

    @pytest.mark.parametrize("program, step, message", refused, ids=[row[2][:60] for row in refused])
    def test_refused(program, step, message):
        check_refused(program, step, message)

    return test_legal, test_refused


def loop(sch, block, position):
    """One of the loops around a block, counted from the outermost."""
    return sch.get_loops(sch.get_block(block) if isinstance(block, str) else block)[position]


def tile(sch, block, factors):
    """(outer loops, inner loops): each of a block's loops split by its factor, all outer ones outside."""
    pairs = [sch.split(each, [None, factor]) for each, factor in zip(sch.get_loops(sch.get_block(block)), factors)]
    outer, inner = [p[0] for p in pairs], [p[1] for p in pairs]
    sch.reorder(*outer, *inner)
    return outer, inner
