"""Whatever a model calls its tensors, dimensions, nodes and itself, the folder compiles without a warning and runs."""
import numpy as np
import pytest
from onnx import helper

import ingot
from c_folders import STRICT, build, compile_all, need, run, selftest_sources
from ingot.codegen.c_names import network_name, new_name
from networks import make_model

F32 = np.float32
# (name of the network, its two inputs, an intermediate tensor, its two outputs, its dimension, its node)
HOSTILE = [
    ("net", "arena", "status", "w", "m", "i", "n", "run"),
    ("printf", "printf", "malloc", "free", "fopen", "memcmp", "stdout", "init"),
    ("time", "time", "index", "exp", "y1", "log", "abs", "time_weights"),
    ("main", "main", "argc", "argv", "int", "float", "register", "main_run"),
    ("example", "inputs", "outputs", "dim_names", "input_dims", "input", "batch-size", "arena_bytes"),
    ("selftest", "X", "x", "x_1", "X_1", "selftest", "x_2", "/a/b:0"),
    ("kernels_0", "a\nb", 'say "hi"', "??/", "größe", "*/", "a b", 'node "1" */ // ??/'),
    ("ingot", "ingot", "INGOT_OK", "ingot_status", "NULL", "INT32_MAX", "size_t", "ingot_init"),
    ("simd", "f32x16", "f32x16_fma", "uint8_t", "true", "class", "this", "simd"),
    ("add", "add", "a", "b", "add_1", "sum", "add_2", "add"),
    # headers of the system, and macros of them; targets of CMake; libraries
    ("math", "INT_MAX", "EDOM", "HUGE_VAL", "CHAR_BIT", "y_again", "n", "k"),
    ("stdint", "INFINITY", "SIZE_MAX", "EOF", "linux", "unix", "i386", "complex"),
    ("features", "NAN", "M_PI", "errno", "FLT_MAX", "I", "mips", "string"),
    ("test", "net", "size", "run", "arena", "assert", "environ", "all"),
    ("m", "dims_of_a", "a", "y", "y_again", "compare_float32", "PATH_MAX", "m"),
    # what the folder itself declares; what is too long
    ("net", "net_run", "net_info", "net_k_add", "net_sigmoid", "net_weights", "net_init", "k"),
    ("l" * 300, "a" * 300, "a" * 299 + "b", "c" * 300, "A" * 300, "d" * 900, "e" * 300, "f" * 300),
    ("\u0441\u0435\u0442\u044c", "\u0430", "\u0431", "1", "2", "__", "_", "0"),
]


def network(names):
    title, a, b, middle, y, z, dim, node = names
    weights = {"weight": np.random.default_rng(0).random((4, 4), F32)}
    nodes = [helper.make_node("MatMul", [a, "weight"], [middle], name=node),
             helper.make_node("Add", [middle, b], [y], name=f"{node}_add"),
             helper.make_node("Sigmoid", [y], [z], name="sigmoid")]
    shape = [dim, 4]
    return make_model(title, nodes, {a: (F32, shape), b: (F32, shape)}, {y: (F32, shape), z: (F32, shape)}, weights)


# Names of vectors, their headers and macros meet those of the compiler's headers in C with vectors.
VECTORS = {"printf", "simd", "math", "stdint", "features"}


@pytest.mark.parametrize("names, fixed", [
    *((names, False) for names in HOSTILE), *((names, True) for names in HOSTILE[::5])],
    ids=lambda v: v[0] if isinstance(v, tuple) else "fixed" if v else "symbolic")
def test_hostile_names(tmp_path, names, fixed):
    need("gcc", "g++")
    model, target = network(names), "host" if names[0] in VECTORS else "c"
    with ingot.compile(model, threads="none", dims={names[6]: 3} if fixed else None, target=target) as library:
        folder = library.export(tmp_path / "folder")
        x = np.random.default_rng(1).random((2, 3, 4), F32)
        found = library.run({names[1]: x[0], names[2]: x[1]})
        expected = x[0] @ np.random.default_rng(0).random((4, 4), F32) + x[1]
        np.testing.assert_allclose(found[names[4]], expected, rtol=1e-5)
        np.testing.assert_allclose(found[names[5]], 1 / (1 + np.exp(-expected)), rtol=1e-5)
    compile_all(folder, "gcc", *STRICT, "-I.")
    run(["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", folder / f"{library.name}.h",
         "-Wno-pragma-once-outside-header"])
    assert "ok" in run([build(folder, selftest_sources(folder), tmp_path / "selftest", "gcc", *STRICT[1:])])


@pytest.mark.parametrize("name", ["net", "printf", "example", "selftest", "kernels_3", "net_kernels", "my_example",
                                  "ingot", "simd", "int", "1st",
                                  "a-b", "math", "Math", "stdint", "immintrin", "pthread", "test", "ingot_half",
                                  "n" * 41])
def test_names_that_are_taken(name):
    with pytest.raises(ValueError, match="is no C identifier, or one that is taken; '.*' would do"):
        ingot.compile(network(HOSTILE[0]), name=name)


def test_identifiers_are_short_and_different():
    """C99 tells names apart by their first 63 letters."""
    taken = set()
    names = [new_name(hint, taken) for hint in ("a" * 300, "a" * 299 + "b", "a" * 300, "A" * 300, "a.b", "a/b", "A_B")]
    assert len({name.lower() for name in names}) == len(names) and max(map(len, names)) <= 63
    network = network_name("n" * 300)
    assert network == network_name(network) != network_name("n" * 299) and len(network) <= 40
    assert network_name("squeezenet") == "squeezenet"


@pytest.mark.parametrize("name", ["math", "test", "m", "l" * 300])
def test_cmake_and_make_take_any_name(tmp_path, name):
    need("cmake", "make", "cc", "gcc")
    model = network((name, *HOSTILE[0][1:]))
    library = ingot.compile(model, threads="none", dims={"n": 3}, target="c")
    folder = library.export(tmp_path / "folder")
    run(["cmake", "-S", folder, "-B", tmp_path / "built"])
    run(["cmake", "--build", tmp_path / "built"])
    (tmp_path / "main.c").write_text("#include <math.h>\n#include <stdint.h>\n#include <features.h>\n"
                                     f'#include "{library.name}.h"\nint main(void) {{ return NAN == 0.0f; }}\n')
    run(["gcc", "-Werror", f"-I{folder}", tmp_path / "main.c", "-o", tmp_path / "main"])
