"""Printed functions: they compile without a warning under gcc and clang, compute what the interpreter computes, and
read well."""
import re

import numpy as np
import pytest
from c_build import COMPILERS, call, compile_text, source
from tir_cases import CASES, arguments, loop, results

from ingot.codegen.c_expr import EmitError
from ingot.codegen.c_function import print_function
from ingot.codegen.c_layout import WIDTH, wrapped
from ingot.ir import tir
from ingot.ir.expr import Ramp, StringImm, Var, const
from ingot.ir.tir.hints import BORDER
from ingot.ir.tir.stmt import AttrStmt, BufferStore, DeclBuffer
from ingot.ir.transform.pipeline import lower_prim_func


@pytest.fixture(scope="module")
def printed():
    """{case: (PrimFunc, lowered PrimFunc, CFunction)}"""
    found = {}
    for name, make in CASES.items():
        func = make()
        lowered = lower_prim_func(func)
        found[name] = func, lowered, print_function(lowered, "k_" + name)
    return found


@pytest.fixture(scope="module", params=[*COMPILERS, "gcc -fopenmp", "gcc -march=native -O3", "gcc -DINGOT_SIMD_SCALAR"])
def library(request, printed, tmp_path_factory):
    compiler, *flags = request.param.split()
    return compile_text(source([f for *_, f in printed.values()]), tmp_path_factory.mktemp("c"), compiler, flags)


@pytest.mark.parametrize("name", CASES)
def test_same_numbers_as_the_interpreter(name, printed, library):
    func, lowered, _ = printed[name]
    inputs = arguments(func)
    expected = results(func, inputs)
    call(library, lowered, "k_" + name, inputs)
    for got, want in zip([a for a in inputs if isinstance(a, np.ndarray)], expected):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_text_reads_well(name, printed):
    text = printed[name][2].signature + "\n" + printed[name][2].body
    named = set(re.findall(r"const \w+ (v_\w+) =", text))  # what a program itself calls a value
    assert set(re.findall(r"\bv_\w+", text)) <= named, "names of block iterators are not for readers"
    assert "((" not in text.replace("INGOT_", "") or re.search(r"\(\(\w+\)", text), "doubled parentheses"
    assert all(len(line) <= 120 and line == line.rstrip() for line in text.splitlines())
    assert "(int64_t)" not in text or "symbolic" in name


# ---------------------------------------------------------------- statements

def lowered(body, params):
    func = tir.prim_func(params, body)
    return func.replace(body=func.root.body)


def body_of(body, params, name="f"):
    """The printed statements, without the braces around."""
    text = print_function(lowered(body, params), name).body
    return text.removeprefix("{\n").removesuffix("}\n").replace("    ", "  ")


def buffers(*names, dtype="float32", size=8, scope="global"):
    return [tir.decl_buffer((size,), dtype, n, scope) for n in names]


def fill(buffer, index=0, value=0.0):
    return BufferStore(buffer, const(value, buffer.dtype), (const(index) if isinstance(index, int) else index,))


def test_names_never_hide_one_another(tmp_path):
    """A buffer called as a keyword, as the function, as a macro, as a function that the text calls, or as a loop."""
    names = ["float", "f", "INT32_MIN", "expf", "i", "ingot_expf", "f32x8_load", "_", "1st", "conv/0:1", "double",
             "for"]
    params = buffers(*names)
    body = tir.seq(*(loop("i", 2, lambda i: loop("i", 2, lambda j: BufferStore(b, tir.exp(b[i]), (i * 2 + j,))))
                     for b in params))
    function = print_function(lowered(body, params), "f")
    declared = re.findall(r"INGOT_RESTRICT (\w+)", function.signature)
    assert declared == ["float_", "f_1", "INT32_MIN_", "expf_", "i", "ingot_expf_", "f32x8_load_", "v", "v1st",
                        "conv_0_1", "double_", "for_"]
    assert "int32_t i_1 = 0" in function.body and "int32_t i_2 = 0" in function.body
    for compiler in COMPILERS:
        compile_text(source([function]), tmp_path, compiler)


def test_names_are_free_again_after_their_scope():
    y, = buffers("y")
    text = body_of(tir.seq(*(loop("i", 4, lambda i: fill(y, i)) for _ in range(2))), [y])
    assert text.count("int32_t i = 0") == 2


def test_one_element_local_buffers_are_variables():
    y, = buffers("y")
    (acc,), (list_,) = buffers("acc", size=1, scope="local"), buffers("list", size=2, scope="local")
    both = BufferStore(y, acc[0] + list_[0], (const(0),))
    body = DeclBuffer(acc, DeclBuffer(list_, tir.seq(fill(acc), fill(list_), both)))
    assert body_of(body, [y]) == ("  float acc;\n  float list[2];\n  acc = 0.0f;\n  list[0] = 0.0f;\n"
                                  "  y[0] = acc + list[0];\n")


def test_declarations_in_a_sequence_have_scopes():
    y, = buffers("y")
    v, scopes = Var("v", "float32"), []
    for n in range(2):
        tile, = buffers("tile", size=2, scope="local")
        scopes.append(DeclBuffer(tile, tir.seq(fill(tile, n), BufferStore(y, tile[n], (const(n),)))))
        scopes.append(tir.LetStmt(v, y[n] + 1.0, BufferStore(y, v, (const(n),))))
    text = body_of(tir.SeqStmt(tuple(scopes)), [y])
    assert text.count("float tile[2];") == 2 and text.count("const float v = y") == 2
    assert text.count("  {\n") == 3, "the last declaration needs no scope of its own"


def test_declarations_of_borders_have_scopes():
    """Loops that were split leave copies of a body, each of which declares the same, one as a border."""
    y, = buffers("y")

    def part(n):
        tile, = buffers("tile", size=2, scope="local")
        return DeclBuffer(tile, tir.seq(fill(tile, n), BufferStore(y, tile[n], (const(n),))))

    def border(*parts):
        return AttrStmt(None, BORDER, StringImm("the last iteration of i"), tir.seq(*parts))

    text = body_of(tir.SeqStmt((border(part(0)), border(fill(y), part(1)), part(0))), [y])
    assert text.count("  {\n") == 2 and text.count("  }\n") == 2 and text.count("float tile[2];") == 3
    assert text.count("/* border: the last iteration of i */") == 2


def test_updates():
    x, y = buffers("x", "y")
    i = Var("i")
    body = tir.seq(*(BufferStore(y, value, (i,)) for value in (
        y[i] + x[i], y[i] - (x[i] + 1.0), y[i] * x[i], y[i] / x[i], x[i] + y[i], y[i + 1] + x[i])))
    assert body_of(body, [x, y, i]).split(";\n")[:-1] == [
        "  y[i] += x[i]", "  y[i] -= x[i] + 1.0f", "  y[i] *= x[i]", "  y[i] /= x[i]", "  y[i] = x[i] + y[i]",
        "  y[i] = y[i + 1] + x[i]"]
    b, = buffers("b", dtype="uint8")
    assert body_of(BufferStore(b, b[i] + b[0], (i,)), [b, i]) == "  b[i] = (uint8_t)(b[i] + b[0]);\n"


def test_loops_and_branches():
    y, = buffers("y")
    body = tir.seq(
        loop("i", 4, lambda i: fill(y, i), "unrolled"),
        tir.for_(Var("k"), 3, tir.IfThenElse(y[0] < 1.0, fill(y), fill(y, 1)), minimum=2))
    assert body_of(body, [y]) == """\
  INGOT_UNROLL(4)
  for (int32_t i = 0; i < 4; ++i) {
    y[i] = 0.0f;
  }
  for (int32_t k = 2; k < 5; ++k) {
    if (y[0] < 1.0f) {
      y[0] = 0.0f;
    } else {
      y[1] = 0.0f;
    }
  }
"""


def test_a_parallel_loop_with_changing_bounds_is_not_collapsed():
    y, = buffers("y")
    p, q = Var("p"), Var("q")
    body = tir.for_(p, 4, tir.For(q, const(0), p + 1, "parallel", fill(y, q)), "parallel")
    assert "collapse" not in body_of(body, [y])


def test_inputs_are_const_and_unused_parameters_quiet():
    x, unused, y = buffers("x", "unused", "y")
    function = print_function(lowered(BufferStore(y, x[0], (const(0),)), [x, unused, y, Var("n", "int64")]), "f")
    assert " ".join(function.signature.split()) == (
        "void f(const float *INGOT_RESTRICT x, const float *INGOT_RESTRICT unused, float *INGOT_RESTRICT y, int64_t n)")
    assert "(void)unused;\n    (void)n;\n" in function.body


def test_vectors_are_read_and_written_through_simd_h():
    x, y = buffers("x", "y", size=64)
    i = Var("i")
    store = BufferStore(y, x[Ramp(i * 8, const(1), 8)], (Ramp(i, const(3), 8),))
    function = print_function(lowered(store, [x, y, i]), "f")
    assert "f32x8_store_strided(&y[i], 3, f32x8_load(&x[i * 8]));" in function.body and function.uses == {"simd.h"}


@pytest.mark.parametrize("body, message", [
    (lambda y: loop("i", 8, lambda i: fill(y, i), "vectorized"), "C has no vectorized loop; run VectorizeLoop first"),
    (lambda y: DeclBuffer(tir.decl_buffer((Var("n"),), name="t"), fill(y)), "buffer t has n elements: LiftWorkspace"),
    (lambda y: fill(y, Var("k")), "k is used outside the scope that defines it"),
    (lambda y: BufferStore(y, tir.Let(Var("v"), const(1), y[0]), (const(0),)), "C has no Let"),
])
def test_what_c_cannot_say(body, message):
    y, = buffers("y")
    with pytest.raises(EmitError, match=message):
        print_function(lowered(body(y), [y]), "f")


# ---------------------------------------------------------------- layout

def test_long_lines_break_where_they_hold_least():
    line = "    result[index] = function(" + ", ".join(f"argument_{n} * (factor + {n})" for n in range(6)) + ");"
    out = wrapped(line)
    assert all(len(part) <= WIDTH for part in out) and len(out) > 1
    assert " ".join(p.strip() for p in out) == line.strip()
    assert all(p.rstrip().endswith((",", ";")) or n == 0 for n, p in enumerate(out)), "breaks after commas"
    assert wrapped("    short = 1;") == ["    short = 1;"]
    assert wrapped("x" * 200) == ["x" * 200], "nowhere to break"


def test_a_wrapped_signature_is_indented():
    params = buffers(*(f"parameter_with_a_long_name_{n}" for n in range(5)))
    lines = print_function(lowered(fill(params[0]), params), "f").signature.splitlines()
    assert len(lines) > 1 and all(line.startswith("    const float *") for line in lines[1:])
