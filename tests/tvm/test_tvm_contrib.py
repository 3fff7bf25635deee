"""tvm.contrib: objects for linkers, C that intrinsics import, and the later of two intrinsics of an axis."""
import numpy as np
import pytest

import ingot as tvm
from ingot import te
from ingot.codegen.imported import together
from ingot.contrib import cblas, cc, clang, utils
from ingot.contrib.download import download, download_testdata

UPDATE = """
extern "C" int dot_update(float *c, float *a, float *b, int m, int l, int stride) {
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < l; ++j) c[i] += a[j] * b[i * stride + j];
    return 0;
}
extern "C" int dot_reset(float *c, int m) {
    for (int i = 0; i < m; ++i) c[i] = 0.0f;
    return 0;
}
"""
MORE = 'extern "C" int twice(int x) { return 2 * x; }'


def dot(m, n):
    a, b = te.placeholder((n,), name="a"), te.placeholder((m, n), name="b")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    buffers = [tvm.tir.decl_buffer(t.shape, t.dtype, name, offset_factor=1, strides=strides) for t, name, strides in (
        (a, "A", [1]), (b, "B", [te.var("s"), 1]), (c, "C", [1]))]

    def calls(ins, outs):
        def call(name, *args):
            ib = tvm.tir.ir_builder.create()
            ib.emit(tvm.tir.call_extern("int32", name, outs[0].access_ptr("w"), *args))
            return ib.get()
        update = call("dot_update", ins[0].access_ptr("r"), ins[1].access_ptr("r"), m, n, ins[1].strides[0])
        return update, call("dot_reset", m), update
    return te.decl_tensor_intrin(c.op, calls, binds=dict(zip((a, b, c), buffers)))


def test_c_that_is_imported_and_the_later_of_two_intrinsics():
    a, b = te.placeholder((8, 32), name="A"), te.placeholder((16, 32), name="B")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((8, 16), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    x, y = c.op.axis
    yo, yi = s[c].split(y, 8)
    s[c].tensorize(yi, dot(8, 32))
    ko, ki = s[c].split(c.op.reduce_axis[0], 16)
    s[c].reorder(x, yo, ko, yi, ki)
    s[c].tensorize(yi, dot(8, 16))
    s[c].pragma(yo, "import_llvm", clang.create_llvm(UPDATE))
    s[c].pragma(x, "import_llvm", clang.create_llvm(UPDATE + MORE))  # of which the first part is there already
    mod = tvm.build(s, [a, b, c], "llvm", name="product")
    rng = np.random.default_rng(0)
    p, q = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((8, 32), (16, 32)))
    out = tvm.nd.array(np.zeros((8, 16), np.float32))
    mod(tvm.nd.array(p), tvm.nd.array(q), out)
    np.testing.assert_array_equal(out.numpy(), p @ q.T)


def test_sources_that_repeat_functions():
    one = "#include <math.h>\nstatic int f(int x) { return x; /* } */ }\nstruct s { int a; };\n"
    two = "static int f(int x)\n{\n}\nint g(void) { return '}'; }\nstatic int f(int x) { return x; /* } */ }\n"
    assert together([one, one, two]) == [one.strip("\n"), "static int f(int x)\n{\n}\nint g(void) { return '}'; }"]
    conditional = "#if defined(A)\nstatic int f(int x) { return x; /* } */ }\n#endif"
    assert together([one, conditional]) == [one.strip("\n"), conditional]


def test_llvms_own_code_is_no_c():
    n = te.placeholder((4,), name="n")
    c = te.compute((4,), lambda i: n[i] + 1, name="c")
    s = te.create_schedule(c.op)
    s[c].pragma(c.op.axis[0], "import_llvm", "; ModuleID = 'x'\ndefine i32 @f() { ret i32 0 }")
    with pytest.raises(ValueError, match="pragma_import_llvm takes the text of a C source, not "):
        tvm.build(s, [n, c], "llvm")


def test_an_object_file_becomes_a_library():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    mod = tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="more")
    with utils.tempdir() as folder:
        mod.save(folder.relpath("more.o"))
        cc.create_shared(folder.relpath("more.so"), [folder.relpath("more.o")])
        loaded = tvm.runtime.load_module(folder.relpath("more.so"))
        out = tvm.nd.array(np.zeros(4, np.float32))
        loaded(tvm.nd.array(np.arange(4, dtype=np.float32)), out)
        np.testing.assert_array_equal(out.numpy(), [1, 2, 3, 4])
        with pytest.raises(RuntimeError, match="the compiler refused"):
            cc.create_shared(folder.relpath("none.so"), [folder.relpath("none.o")])


# ---------------------------------------------------------------- products, files

@pytest.mark.parametrize("batch", [False, True])
def test_products_by_packed_functions(batch):
    a, b = te.placeholder((2, 3, 4)[not batch:], name="A"), te.placeholder((2, 5, 4)[not batch:], name="B")
    c = (cblas.batch_matmul if batch else cblas.matmul)(a, b, transb=True)
    d = te.compute(c.shape, lambda *i: c(*i) + 1, name="D")
    mod = tvm.build(te.create_schedule(d.op), [a, b, d], "llvm")
    p, q = (np.random.default_rng(n).random([int(e) for e in t.shape], np.float32) for n, t in enumerate((a, b)))
    out = tvm.nd.empty([int(e) for e in d.shape])
    mod(tvm.nd.array(p), tvm.nd.array(q), out)
    np.testing.assert_allclose(out.numpy(), p @ np.swapaxes(q, -1, -2) + 1, rtol=1e-5)


def test_files_are_fetched_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_TEST_DATA_ROOT_PATH", str(tmp_path / "kept"))
    source = tmp_path / "labels.txt"
    source.write_text("cat")
    path = download_testdata(source.as_uri(), "labels.txt", module=["data", "names"])
    assert path == str(tmp_path / "kept/data/names/labels.txt")
    source.write_text("dog")
    download_testdata(source.as_uri(), "labels.txt", module=["data", "names"])
    assert open(path).read() == "cat"
    download(source.as_uri(), path, overwrite=True)
    assert open(path).read() == "dog"
    with pytest.raises(OSError):
        download((tmp_path / "none").as_uri(), tmp_path / "new", retries=2)
    assert not (tmp_path / "new").exists()
