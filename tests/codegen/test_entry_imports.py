"""C sources that programs bring along, and assertions, in modules and in networks; the layout that Python reads."""
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ingot as tvm
from ingot import tir
from ingot.runtime import NetworkError
from ingot.runtime.packed import FFI, HEADER
from ingot.script import ir as I, relax as R, tir as T

RUNTIME = Path(__file__).resolve().parents[2] / "runtime_c"
TRIPLE = """
static int32_t triple(const float *x, float *y, int32_t n)
{
    for (int32_t i = 0; i < n; ++i) y[i] = 3 * x[i];
    return 0;
}
"""
NOT_STATIC = """
int32_t half(const float *x, float *y);
int32_t half(const float *x, float *y)
{
    *y = *x / 2;
    return 0;
}
"""


@T.prim_func
def tripled(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    T.func_attr({"global_symbol": "tripled"})
    with T.block("B"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        T.evaluate(T.call_extern("int32", "triple", T.address_of(A[0]), T.address_of(B[0]), 8))


@T.prim_func
def halved(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    T.func_attr({"global_symbol": "halved"})
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[vi])
            T.evaluate(T.call_extern("int32", "half", T.address_of(A[vi]), T.address_of(B[vi])))


def annotated(func, source):
    sch = tir.Schedule(func)
    sch.annotate(sch.get_block("B"), "pragma_import_c", source)
    return sch.mod["main"] if "main" in sch.mod else next(iter(sch.mod.functions.values()))


X = np.arange(8, dtype=np.float32)


def test_a_source_comes_once_before_the_kernels_of_a_module():
    again = tripled.with_attr("global_symbol", "again")
    module = tvm.build(tvm.IRModule({"a": annotated(tripled, TRIPLE), "b": annotated(again, TRIPLE),
                                     "c": annotated(halved, NOT_STATIC)}))
    text = module.get_source()
    assert text.count("static int32_t triple(") == 1 and text.index("triple(const") < text.index("tripled_kernel(")
    for name, factor in (("tripled", 3), ("again", 3), ("halved", 0.5)):
        y = np.empty_like(X)
        module[name](X, y)
        np.testing.assert_array_equal(y, X * factor)


def test_what_a_c_function_writes_is_no_const_and_no_input():
    module = tvm.build(annotated(tripled, TRIPLE))
    assert "tripled_kernel(const float *INGOT_RESTRICT A, float *INGOT_RESTRICT B)" in module.get_source()
    frozen = X.copy()
    frozen.flags.writeable = False
    module(frozen, np.empty_like(X))
    with pytest.raises(ValueError, match="argument B is written, and is a read-only array"):
        module(X, frozen)


@I.ir_module
class Network:
    @T.prim_func
    def small(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.Assert(A[0] < T.float32(100), "too large")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]

    @R.function
    def main(x: R.Tensor((8,), "float32")):
        cls = Network
        with R.dataflow():
            a = R.call_tir(cls.tripled, (x,), R.Tensor((8,), "float32"))
            b = R.call_tir(cls.halved, (a,), R.Tensor((8,), "float32"))
            c = R.call_tir(cls.small, (b,), R.Tensor((8,), "float32"))
            out = R.call_tir(cls.tripled, (c,), R.Tensor((8,), "float32"))
            R.output(out)
        return out


def test_a_network_with_sources_and_an_assertion(tmp_path):
    functions = {**Network.functions, "tripled": annotated(tripled, TRIPLE), "halved": annotated(halved, NOT_STATIC)}
    with tvm.compile(Network.with_functions(functions), threads="none") as library:
        np.testing.assert_array_equal(library(X), X * 4.5)
        with pytest.raises(NetworkError, match="an assertion of the program does not hold"):
            library(X + 100)
        folder = library.export(tmp_path / "net")
    files = {p.name: p.read_text() for p in folder.glob("*.c")}
    assert sum("static int32_t triple(" in text for text in files.values()) == 1
    done = subprocess.run(["make", "-C", str(folder), "check"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_layout_that_python_reads_is_the_headers(tmp_path):
    """Sizes and offsets of every struct that runtime/packed.py declares."""
    structs = re.findall(r"typedef struct \{(.*?)\}\s*(ingot_\w+);", HEADER, re.DOTALL)
    assert len(structs) == 8
    lines, found = [], []
    for name in (name for _, name in structs):
        fields = [f for f, _ in FFI.typeof(name).fields]
        lines.append(f'printf("{name} %lu\\n", (unsigned long)sizeof({name}));')
        lines += [f'printf("{name}.{f} %lu\\n", (unsigned long)offsetof({name}, {f}));' for f in fields]
        found += [f"{name} {FFI.sizeof(name)}", *(f"{name}.{f} {FFI.offsetof(name, f)}" for f in fields)]
    source = tmp_path / "layout.c"
    source.write_text("\n".join(["#include <stdio.h>", '#include "ingot_module.h"', "int main(void)", "{", *lines,
                                 "return 0;", "}", ""]))
    program = str(tmp_path / "layout")
    subprocess.run(["cc", "-std=c99", f"-I{RUNTIME}", str(source), "-o", program], check=True, timeout=60)
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == found
    assert [f for f in ("data", "device", "ndim", "type", "shape", "strides", "byte_offset")] == \
        [f for f, _ in FFI.typeof("ingot_tensor").fields] and FFI.sizeof("ingot_tensor") == 48  # DLTensor's
