"""CompiledLibrary on a network written by hand: values, names, dimensions, weights, life time, threads, errors."""
import gc
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from sample_network import SampleNetwork

from ingot.codegen.toolchain import ToolchainError, build_program
from ingot.codegen.toolchains import is_supported_here
from ingot.runtime import CompiledLibrary, InputError, NetworkError
from ingot.runtime.binding import HEADER, ABI, aligned_empty
from ingot.runtime.library import Timing

SHIFT = np.array([1, 2, 3, 4], np.float32)


def rows(count):
    return np.arange(count * 4, dtype=np.float32).reshape(count, 4)


@pytest.fixture
def library():
    with CompiledLibrary(SampleNetwork()) as library:
        yield library


def test_call_returns_outputs_in_declared_order(library):
    shifted, ones = library(rows(3), SHIFT)
    assert shifted.dtype == np.float32 and shifted.shape == (3, 4)
    np.testing.assert_array_equal(shifted, rows(3) + SHIFT + 0.5)
    assert ones.dtype == np.int64 and ones.tolist() == [1] * 6


def test_results_are_not_overwritten_by_the_next_run(library):
    first, _ = library(rows(3), SHIFT)
    library(rows(3) * 0, SHIFT)
    np.testing.assert_array_equal(first, rows(3) + SHIFT + 0.5)


def test_run_takes_names_of_the_model_and_of_c(library):
    for name in ("x:0", "x_0"):
        outputs = library.run({"shift": SHIFT, name: rows(3)})
        assert list(outputs) == ["shifted", "ones"]
        np.testing.assert_array_equal(outputs["shifted"], rows(3) + SHIFT + 0.5)


def test_strided_arrays_are_copied(library):
    wide = np.zeros((3, 8), np.float32)
    wide[:, ::2] = rows(3)
    np.testing.assert_array_equal(library(wide[:, ::2], SHIFT)[0], rows(3) + SHIFT + 0.5)
    np.testing.assert_array_equal(library(np.asfortranarray(rows(3)), SHIFT)[0], rows(3) + SHIFT + 0.5)


@pytest.mark.parametrize("weights", ["array", "file"])
def test_symbolic_dimension(weights):
    network = SampleNetwork("rows", weights)
    with CompiledLibrary(network) as library:
        for count in (1, 8, 3):  # 8 needs a larger arena than 1, and 3 fits into it
            shifted, ones = library(rows(count), SHIFT)
            np.testing.assert_array_equal(shifted, rows(count) + SHIFT + 0.5)
            assert ones.shape == (2 * count,)
        assert network.written == 1
        with pytest.raises(NetworkError, match="sums_run failed: a dimension is out of range") as caught:
            library(rows(101), SHIFT)
        assert caught.value.status == -5


@pytest.mark.parametrize("arrays, message", [
    ((rows(3),), r"1 inputs given, 2 expected: 'x:0', 'shift'"),
    ((rows(3).astype(np.float64), SHIFT),
     r"input 'x:0': dtype float64, expected float32; convert it with .astype\('float32'\)"),
    ((rows(3).tolist(), SHIFT), "dtype float64, expected float32"),
    ((rows(3).astype(">f4"), SHIFT), "dtype >f4, expected float32"),
    ((rows(2), SHIFT), r"input 'x:0': shape \(2, 4\), expected \(3, 4\)"),
    ((rows(3), SHIFT[:3]), r"input 'shift': shape \(3,\), expected \(4,\)"),
    ((rows(3).ravel(), SHIFT), r"shape \(12,\), expected \(3, 4\)"),
])
def test_wrong_arrays(library, arrays, message):
    with pytest.raises(InputError, match=message):
        library(*arrays)


@pytest.mark.parametrize("feeds, message", [
    ({"x:0": rows(3)}, "missing input 'shift'"),
    ({"x:0": rows(3), "y": SHIFT}, "no input is called 'y'; the inputs are 'x:0', 'shift'"),
    ({"x:0": rows(3), "x_0": rows(3), "shift": SHIFT}, "input 'x_0' is given twice"),
])
def test_wrong_names(library, feeds, message):
    with pytest.raises(InputError, match=message):
        library.run(feeds)


def test_symbolic_shapes_in_messages():
    with CompiledLibrary(SampleNetwork("rows")) as library, pytest.raises(InputError, match=r"expected \(rows, 4\)"):
        library(np.zeros((2, 5), np.float32), SHIFT)


def test_time(library):
    timing = library.time(rows(3), SHIFT, repeat=5)
    assert len(timing.times) == 5 and timing.min <= timing.median <= timing.max
    assert str(Timing((0.001, 0.003, 0.002))) == "median 2.000 ms, min 1.000 ms, 3 runs"
    with pytest.raises(ValueError, match="repeat"):
        library.time(rows(3), SHIFT, repeat=0)


def test_bind():
    library = CompiledLibrary(SampleNetwork("rows"))
    x = rows(3)
    run, (shifted, ones) = library.bind(x, SHIFT)
    run()
    np.testing.assert_array_equal(shifted, rows(3) + SHIFT + 0.5)
    x += 1
    library(rows(50), SHIFT)  # a larger arena
    run()
    np.testing.assert_array_equal(shifted, rows(3) + 1 + SHIFT + 0.5)
    assert ones.tolist() == [1] * 6
    library.close()
    with pytest.raises(ValueError, match="is closed"):
        run()


def test_export(library, tmp_path):
    folder = library.export(tmp_path / "out")
    assert (folder / "sums.c").exists()


def test_close_removes_the_folder(library):
    library(rows(3), SHIFT)
    folder = library._folder
    assert folder.exists()
    library.close()
    library.close()
    assert not folder.exists()
    with pytest.raises(ValueError, match="is closed"):
        library(rows(3), SHIFT)


def test_end_of_life_removes_the_folder():
    library = CompiledLibrary(SampleNetwork())
    library(rows(3), SHIFT)
    folder = library._folder
    del library
    gc.collect()
    assert not folder.exists()


def test_building_may_be_tried_again(monkeypatch):
    library = CompiledLibrary(SampleNetwork())
    monkeypatch.setenv("CC", "/nowhere/cc")
    with pytest.raises(ToolchainError, match="no C compiler"):
        library(rows(3), SHIFT)
    monkeypatch.delenv("CC")
    assert library(rows(3), SHIFT)[1].tolist() == [1] * 6
    library.close()


def test_a_foreign_target_is_refused():
    from ingot.codegen.target import Target
    foreign = next(name for name in Target.names() if not is_supported_here(Target.get(name)))
    with pytest.raises(ToolchainError, match=f"cannot run code for {foreign}"):
        CompiledLibrary(SampleNetwork(target=foreign))(rows(3), SHIFT)


def test_two_networks_of_one_name():
    with CompiledLibrary(SampleNetwork(2)) as two, CompiledLibrary(SampleNetwork("rows")) as any_rows:
        assert two(rows(2), SHIFT)[1].size == 4
        assert any_rows(rows(5), SHIFT)[1].size == 10
        assert two(rows(2), SHIFT)[1].size == 4


def test_calls_from_threads(library):
    wrong = []

    def work(offset):
        for _ in range(50):
            if not np.array_equal(library(rows(3) + offset, SHIFT)[0], rows(3) + offset + SHIFT + 0.5):
                wrong.append(offset)

    workers = [threading.Thread(target=work, args=(offset,)) for offset in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_openmp_threads_survive_closing():
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import numpy as np\n"
            "from sample_network import SampleNetwork; from ingot.runtime import CompiledLibrary\n"
            "import sample_network as s\n"
            "s.SOURCE = s.SOURCE.replace('for (int64_t i = 0; i < {rows} * 4', "
            "'INGOT_PARALLEL_FOR\\n for (int64_t i = 0; i < {rows} * 4')\n"
            "for _ in range(3):\n"
            "    lib = CompiledLibrary(SampleNetwork('rows', threads='openmp'))\n"
            "    print(lib(np.ones((64, 4), np.float32), np.ones(4, np.float32))[0].sum())\n"
            "    lib.close()\n")
    done = subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["640.0"] * 3), done.stderr


def test_aligned_empty():
    for size in (1, 4096):
        array = aligned_empty(size, 64)
        assert len(array) == size and array.ctypes.data % 64 == 0


def test_the_declarations_have_the_layout_of_the_header(tmp_path):
    """Every field has one offset, by the compiler with ingot.h and by cffi with the declarations of binding.py."""
    import cffi
    ffi = cffi.FFI()
    ffi.cdef(HEADER)
    structs = ("ingot_tensor_info", "ingot_model_info")
    fields = [(struct, field) for struct in structs for field, _ in ffi.typeof(struct).fields]
    prints = "".join(f'printf("%zu\\n", offsetof({struct}, {field}));\n' for struct, field in fields)
    prints += "".join(f'printf("%zu\\n", sizeof({struct}));\n' for struct in structs)
    SampleNetwork().write(tmp_path / "sums")
    (tmp_path / "sums" / "layout.c").write_text(f'#include <stdio.h>\n#include "ingot.h"\nint main(void) {{\n{prints}'
                                                'printf("%u\\n", INGOT_ABI);\nreturn 0; }\n')
    program = build_program([tmp_path / "sums" / "layout.c"], tmp_path / "layout")
    printed = [int(word) for word in subprocess.run([program], capture_output=True, check=True).stdout.split()]
    expected = [ffi.offsetof(struct, field) for struct, field in fields] + [ffi.sizeof(s) for s in structs] + [ABI]
    assert printed == expected
