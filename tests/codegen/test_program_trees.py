"""Trees of programs with branches, loops and reads of tensors: as text, verified, and as C that runs."""
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hand_made import (I, M, N, add, arena, expected, model, multiply, number, operand, program, seq, stepwise, tensor)

from ingot.codegen.c_expr import EmitError
from ingot.codegen.program import Weight
from ingot.codegen.program_text import program_text
from ingot.codegen.regions import form_regions
from ingot.codegen.target import Target
from ingot.codegen.toolchain import can_build_openmp
from ingot.codegen.tree import Call, Copy, For, If, Launch, Let, ProgramError, Read, Seq, calls_of, walk
from ingot.codegen.verify_program import verify
from ingot.ir.expr import EQ
from c_build import STRICT

SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
TRAPPING = ("-O1", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")  # needs no library
# Runs `tree` on floats and one int of the command line, and prints its status, what it found and its outputs.
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "tree.h"
int main(int argc, char **argv)
{
    INGOT_ALIGNED(64) static unsigned char arena[TREE_ARENA_BYTES];
    static float x[TREE_X_SIZE], y[TREE_Y_SIZE];
    const int32_t steps[1] = {(int32_t)atoi(argv[1])};
    tree *net;
    int64_t found = -1;
    if (argc != 2 + TREE_X_SIZE || tree_init(&net, arena, sizeof arena) != INGOT_OK) return 1;
    for (int i = 0; i < TREE_X_SIZE; ++i) x[i] = (float)atof(argv[i + 2]);
    float *z = malloc(TREE_Z_SIZE * sizeof *z); /* so that a write beyond the bound is seen */
    if (z == NULL) return 1;
    for (int i = 0; i < TREE_Z_SIZE; ++i) z[i] = -1.0f;
    const ingot_status status = tree_run(net, x, steps, y, z, &found);
    printf("%d %d\\n", (int)status, (int)found);
    for (int i = 0; i < TREE_Y_SIZE; ++i) printf("%.9g ", (double)y[i]);
    printf("\\n");
    for (int i = 0; i < TREE_Z_SIZE; ++i) printf("%.9g ", (double)z[i]);
    free(z);
    return 0;
}
"""


def need_compiler(compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")


def sanitized(compiler, folder):
    """The flags of the sanitizers that a compiler has its libraries for."""
    need_compiler(compiler)
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    done = subprocess.run([compiler, *SANITIZED, "empty.c", "-o", "empty"], cwd=folder, capture_output=True)
    return SANITIZED if done.returncode == 0 else TRAPPING


def built(made, folder, compiler, *flags, main=MAIN):
    """The path of a program with a CompiledModel."""
    need_compiler(compiler)
    made.write(folder)
    (folder / "main.c").write_text(main)
    sources = [p.name for p in sorted(folder.glob("*.[cS]")) if not re.search("_(example|selftest)", p.name)]
    subprocess.run([compiler, *STRICT, *flags, *sources, "-o", "main", "-lm"], cwd=folder, check=True)
    return folder / "main"


def answers(path, steps, x):
    """(status, what the run found, y, z) of a run."""
    done = subprocess.run([path, str(steps), *map(str, x)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, *rows = done.stdout.split("\n")
    return *map(int, first.split()), *(np.array(row.split(), np.float32) for row in rows)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_loop_with_branches_that_a_tensor_decides(tmp_path, compiler):
    made = model(4, stepwise())
    path, x = built(made, tmp_path / "tree", compiler,
                    *sanitized(compiler, tmp_path)), np.array([1, -2, 0.5, 3], np.float32)
    for steps in range(5):
        status, found, y, z = answers(path, steps, x)
        assert (status, found) == (0, steps)
        np.testing.assert_array_equal(y, expected(x, steps))
        np.testing.assert_array_equal(z, [*y[:steps], *[-1] * (4 - steps)])
    for steps in (-1, 5, 1 << 30):
        assert answers(path, steps, x)[0] == -5  # INGOT_ERR_DIM


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_every_file_of_such_a_network_builds(tmp_path, compiler):
    """Its example and self-test too, which get what a run reports; as one file; with the profile's hooks."""
    need_compiler(compiler)
    made = model(4, stepwise())
    made.write(tmp_path / "folder")
    made.write(tmp_path / "single", single_file=True)
    for folder, flags in (("folder", []), ("folder", ["-DINGOT_PROFILE"]), ("single", [])):
        for source in (tmp_path / folder).glob("*.c"):
            subprocess.run([compiler, *STRICT, *flags, "-c", source.name, "-o", "x.o"], cwd=tmp_path / folder,
                           check=True)
    subprocess.run(["make", f"CC={compiler}", "selftest"], cwd=tmp_path / "folder", check=True, capture_output=True)
    assert "two runs differ" not in subprocess.run(["./selftest"], cwd=tmp_path / "folder", text=True, check=True,
                                                   capture_output=True).stdout


def sums_of_rows():
    """y = the sum of the rows of x [5, 4], in a For; z: as many of the last sum's first as steps + 1 says."""
    x, y = operand("input", 0, "x"), operand("output", 0, "y")
    loop = For(I, number(4), seq(add(arena(0), operand("input", 0, "x", (I + 1) * 4), arena(1)),
                                 Copy(arena(1), arena(0), number(16))))
    run = seq(Let(M, Read(operand("input", 1, "steps")), number(2)), Let(N, M + 1, number(4)),
              Copy(x, arena(0), number(16)), loop, Copy(arena(0), y, number(16)),
              Copy(arena(0), operand("output", 1, "z"), N * 4))
    return program(run, [tensor("x", "float32", 5, 4), tensor("steps", "int32", 1)],
                   [tensor("y", "float32", 4), tensor("z", "float32", N)], [(16, "float32")] * 2)


def test_a_for_over_the_rows_of_an_input(tmp_path):
    path = built(model(4, sums_of_rows()), tmp_path / "tree", "gcc", *sanitized("gcc", tmp_path))
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    status, found, y, z = answers(path, 1, x.ravel())
    assert (status, found) == (0, 2)
    np.testing.assert_array_equal(y, x.sum(0))
    np.testing.assert_array_equal(z, [*y[:2], -1, -1])


def with_a_weight():
    """y = x + w, where init copies w into the arena, and z = y. The profile's hook does not see the addition."""
    run = seq(Let(N, Read(operand("input", 1, "steps")), number(4)),
              replace(add(operand("input", 0, "x"), arena(0), arena(1)), hook=False),
              Copy(arena(1), operand("output", 0, "y"), number(16)), multiply(arena(0), arena(1), arena(2)),
              Copy(arena(2), operand("output", 1, "z"), number(16)))
    return program(run, [tensor("x", "float32", 4), tensor("steps", "int32", 1)],
                   [tensor("y", "float32", 4), tensor("z", "float32", N)], [(16, "float32")] * 3,
                   seq(Copy(operand("weight", 0, "w"), arena(0), number(16))),
                   weights=[Weight("w", np.arange(4, dtype=np.float32), 0)])


def test_init_copies_a_weight_that_lasts(tmp_path):
    made = model(4, with_a_weight(), weights="array")
    path = built(made, tmp_path / "tree", "gcc", *sanitized("gcc", tmp_path))
    x = np.array([1, 2, 3, 4], np.float32)
    status, _, y, z = answers(path, 4, x)
    assert status == 0
    np.testing.assert_array_equal(y, x + np.arange(4))
    np.testing.assert_array_equal(z, y * np.arange(4))
    with pytest.raises(EmitError, match="init reads weight w, but weights in a file are given after it"):
        replace(made, weights="file").files()


def test_calls_without_a_hook_have_no_number():
    made = with_a_weight()
    assert [c.kernel for c in made.calls] == ["multiply"]
    text = model(4, made).files()["tree.c"]
    assert "    /* a + b */\n    tree_add(" in text and "INGOT_MARK(net, 0); /* a * b */" in text
    assert "INGOT_MARK(net, 1);\n" in text


def test_teams_in_branches(tmp_path):
    """Each run of calls that a team makes is a region, in whichever branch; what they depend on is passed to it."""
    if not can_build_openmp(Target.get("c")):
        pytest.skip("no OpenMP here")
    size, x = 1 << 16, operand("input", 0, "x")
    run = seq(Let(N, Read(operand("input", 1, "steps")), number(4)),
              If(EQ(N, number(1)), seq(add(x, x, arena(0))), seq(multiply(x, x, arena(0)))),
              Copy(arena(0), operand("output", 0, "y"), number(4 * size)),
              Copy(arena(0), operand("output", 1, "z"), N * 4))
    made = model(size, program(run, [tensor("x", "float32", size), tensor("steps", "int32", 1)],
                               [tensor("y", "float32", size), tensor("z", "float32", N)], [(4 * size, "float32")]),
                 threads="openmp", opt_level=2)
    functions = {k: made.kernels[name].function for k, name in made.kernel_of.items()}
    assert all(functions[c.kernel].team for c in calls_of(run))
    with pytest.raises(EmitError, match="threads share kernel add, but its call is in no region; run form_regions"):
        made.files()
    made = replace(made, program=replace(made.program, run=form_regions(run, functions)))
    regions = [n for n in walk(made.program.run) if isinstance(n, Seq) and n.threads == "region"]
    assert len(regions) == 2 and made.files()["tree.c"].count("ingot_together(") == 2
    text = MAIN.replace("(float)atof(argv[i + 2])", "(float)(i % 7)").replace("argc != 2 + TREE_X_SIZE", "argc != 2")
    path = built(made, tmp_path / "tree", "gcc", "-fopenmp", main=text)
    values = np.arange(size, dtype=np.float32) % 7
    for steps in (0, 1):
        np.testing.assert_array_equal(answers(path, steps, [])[2], values + values if steps == 1 else values * values)


# ---------------------------------------------------------------- text

def test_a_program_as_text():
    text = program_text(stepwise())
    assert text.splitlines()[5:] == """\
    buffer 0 b0: 16 bytes of global memory at 0, alive 1 to 9
    buffer 1 b1: 16 bytes of global memory at 128, alive 3 to 7
    buffer 2 b2: 16 bytes of global memory at 64, alive 3 to 7
    run:
        0: let n = read input steps, at most 4
        1: copy 16 bytes: input x -> arena b0
        2: let i = 0
        while i < n:
            if i % 2 == 0:
                3: add(arena b0, arena b0) -> arena b1  # a + b
            else:
                4: multiply(arena b0, input x) -> arena b2  # a * b
                5: copy 16 bytes: arena b2 -> arena b1
            6: copy 16 bytes: arena b1 -> arena b0
            7: let i = i + 1
        8: copy 16 bytes: arena b0 -> output y
        9: copy n * 4 bytes: arena b0 -> output z""".splitlines()


def on_a_device():
    """y = x + x on a device: what is launched works in its memory, so the host copies there and back."""
    launch = Launch("add", (number(4),), (number(64),), number(0), (arena(0), arena(0), arena(1)), "device", reads=2)
    return program(seq(Copy(operand("input", 0, "x"), arena(0), number(16)), launch,
                       Copy(arena(1), operand("output", 0, "y"), number(16))), [tensor("x", "float32", 4)],
                   [tensor("y", "float32", 4)], [(16, "float32", "device")] * 2)


def test_launches_have_text_and_memory_of_their_own_but_no_c():
    made = on_a_device()
    verify(made)
    assert "launch <4, 64, 0 shared> in device memory: add(arena b0, arena b0) -> arena b1" in program_text(made)
    assert made.plan.total.value == 0 and made.plan.bytes_of("device").value == 128
    assert made.plan.memories == ("global", "device")
    with pytest.raises(EmitError, match="C has no device memory, in which b0 lies"):
        model(4, made).files()
    launch = replace(made.run.items[1], memory="global")
    alone = program(seq(launch), made.inputs, made.outputs, [(16, "float32")] * 2)
    with pytest.raises(EmitError, match="C has no launch of add: global memory is a device's, whose dialect it needs"):
        model(4, alone).files()


# ---------------------------------------------------------------- what means nothing

X, STEPS, Y = operand("input", 0, "x"), operand("input", 1, "steps"), operand("output", 0, "y")
SET = Let(N, number(1), number(4))


@pytest.mark.parametrize("run, message", [
    (seq(add(X, X, arena(7))), "Call add uses arena 7, of which there are 2"),
    (seq(replace(add(X, X, Y), reads=0)), "Call add writes input x"),
    (seq(add(X, X, arena(1))), "Call add works in global memory, but arena b1 lies in device memory: copy it"),
    (seq(Copy(arena(0), X, number(4))), "Copy writes input x"),
    (seq(Copy(arena(0), arena(0, 4), number(4))), "Copy of arena b0 to itself"),
    (seq(Copy(X, Y, number(20))), "Copy up to byte 20 of input x, which has 16"),
    (seq(SET, Copy(operand("input", 0, "x", N), arena(0), N * 4)), "Copy up to byte 32 of input x, which has 16"),
    (seq(Copy(operand("scratch"), Y, number(4))), "a Copy of scratch, which has no size"),
    (seq(Let(N, Read(X))), "Let n reads x of float32, not an integer"),
    (seq(Let(N, M)), "Let n uses m, which is not set before"),
    (seq(If(I < 1, seq()), SET), "If uses i, which is not set before"),
    (seq(If(number(1) < 2, seq(SET)), Copy(X, Y, N)), "Copy uses n, which is not set before"),
    (seq(For(I, number(3), seq()), Copy(X, Y, I)), "Copy uses i, which is not set before"),
    (seq(SET, replace(add(X, X, Y), operands=(X, operand("input", 0, "x", M), Y))),
     "Call add uses m, which is not set"),
    (seq(SET, Let(M, number(1), N)), "the upper bound of m uses n, which is not set before"),
    (seq(SET, Let(N, number(1), number(5))), "the Lets of n have different upper bounds"),
    (seq(SET, For(N, number(3), seq())), "n is set by a Let and a For"),
    (seq(Seq((Copy(X, Y, number(4)),), "region")), "a region of threads holds something else than who makes calls"),
    (seq(Seq((Seq((SET,), "team"),), "region")), "a team of threads holds something else than calls"),
])
def test_what_means_nothing_is_refused(run, message):
    valid = program(seq(), [tensor("x", "float32", 4), tensor("steps", "int32", 1)], [tensor("y", "float32", 4)],
                    [(16, "float32"), (16, "float32", "device")])
    with pytest.raises(ProgramError, match=message):
        verify(replace(valid, run=run))


@pytest.mark.parametrize("init, dims, message", [
    (seq(SET), (), "init has steps that are neither calls nor copies"),
    (seq(Call("add", (arena(0),))), (M,), "init has calls, but only a run knows where tensors of symbolic sizes lie"),
    (seq(Call("add", (X, arena(0)), reads=1)), (), "Call add uses input x, which init does not have"),
])
def test_init_has_calls_in_the_arena_alone(init, dims, message):
    with pytest.raises(ProgramError, match=message):
        verify(program(seq(), [tensor("x", "float32", 4)], [], [(16, "float32")], init, dims))


def test_the_shapes_of_outputs_are_known_at_the_end():
    with pytest.raises(ProgramError, match="the shape of output y uses n, which is not set before"):
        verify(program(seq(If(number(1) < 2, seq(SET))), [], [tensor("y", "float32", N)]))
    verify(program(seq(If(number(1) < 2, seq(SET), seq(SET))), [], [tensor("y", "float32", N)]))
