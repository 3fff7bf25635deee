"""Running a network built for another machine, by an emulator."""
import subprocess

import numpy as np
import pytest

from ingot.codegen.toolchain import build_program, missing_tools, run_command, source_files

PROGRAM = """#include <stdio.h>
#include "{name}.h"

INGOT_ALIGNED({upper}_ARENA_ALIGN) static unsigned char arena[{upper}_ARENA_BYTES];
static float {arrays};

int main(void)
{{
    {name} *net;
    if ({name}_init(&net, arena, sizeof arena) != INGOT_OK) return 1;
    {reads}
    if ({name}_run(net, {arguments}) != INGOT_OK) return 3;
    {writes}
    return 0;
}}
"""


def run_elsewhere(library, feeds, folder):
    """{output: array} of a library of float32 tensors, of a folder written and built for its target. Skips the test
    where its compiler or an emulator is missing."""
    target = library.model.target
    if reason := missing_tools(target):
        pytest.skip(reason)
    sources, inputs, outputs = library.export(folder / "net"), library.inputs, library.outputs
    xs, ys = ([f"{letter}{n}" for n in range(len(tensors))] for letter, tensors in (("x", inputs), ("y", outputs)))
    sizes = [int(np.prod(t.shape)) for t in (*inputs, *outputs)]
    (sources / "main.c").write_text(PROGRAM.format(
        name=library.name, upper=library.name.upper(), arguments=", ".join(xs + ys),
        arrays=", ".join(f"{a}[{size}]" for a, size in zip(xs + ys, sizes)),
        reads="\n    ".join(f"if (fread({x}, sizeof {x}, 1, stdin) != 1) return 2;" for x in xs),
        writes="\n    ".join(f"if (fwrite({y}, sizeof {y}, 1, stdout) != 1) return 4;" for y in ys)))
    program = build_program(source_files(sources), folder / "program", target)
    given = b"".join(np.ascontiguousarray(feeds[t.source_name], np.float32).tobytes() for t in inputs)
    done = subprocess.run(run_command(target, program), input=given, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr.decode()
    found = np.split(np.frombuffer(done.stdout, np.float32), np.cumsum(sizes[len(inputs):])[:-1])
    return {t.source_name: y.reshape(t.shape) for t, y in zip(outputs, found, strict=True)}
