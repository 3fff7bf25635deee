"""Run-time dispatch: one folder for several targets, whose C takes the best that the processor runs."""
import re
import shutil

import numpy as np
import pytest

import ingot
from c_folders import STRICT, copy, need, need_compiler, run
from ingot.codegen.dispatch import FEATURE_BITS, feature_words, targets_of
from ingot.codegen.target import ROWS, Target, is_supported_here
from ingot.codegen.toolchain import find_compiler, missing_tools
from ingot.codegen.toolchains import TOOLCHAINS, toolchain
from networks import attention_net, load

X86 = "x86-64-v2+x86-64-v4-vnni+x86-64-v3"
ARM = "aarch64-linux-gnu+aarch64-dotprod+aarch64-i8mm"
OK = re.compile(r"^(\S+):\n\w+: max error .*: ok$", re.MULTILINE)


def make(folder, target, *settings, goal="check"):
    """What make prints, with every warning an error, by the compiler for a target."""
    if reason := missing_tools(target):
        pytest.skip(reason)
    need("make")
    compiler = find_compiler(target)
    flags = f"CFLAGS={' '.join(['-O1', *STRICT])}"
    return run(["make", "-s", goal, f"CC={compiler}", flags, *settings], folder)


def runner(target, *flags):
    """How make runs programs under QEMU as another processor."""
    words = toolchain(Target.get(target)).runner
    need(words[0])
    return f"RUNNER={' '.join([words[0], *flags, *words[1:]])}"


@pytest.mark.parametrize("network, options", [
    ("conv_net", {}), ("conv_net", {"weights": "array"}), ("conv_net", {"weights": "file"}),
    ("conv_net", {"weights": "extern"}), ("conv_net", {"threads": "openmp"}), ("mobile_net", {})],
    ids=lambda x: x if isinstance(x, str) else "-".join(x.values()))
def test_all_targets_that_run_here_are_right(exported, tmp_path, network, options):
    made = exported(network, target=X86, **options)
    found = OK.findall(make(copy(made.folder, tmp_path), "x86-64-v2"))
    assert found == [t.name for t in targets_of(X86) if is_supported_here(t)]
    if "x86-64-v2" in found:
        assert made.library.name == network and made.library.model.target.name == found[0]


@pytest.mark.parametrize("cpu, best", [("Haswell", "x86-64-v3"), ("Nehalem", "x86-64-v2"), ("qemu64", None)])
def test_an_older_processor(exported, tmp_path, cpu, best):
    need("qemu-x86_64")
    folder = copy(exported("conv_net", target=X86).folder, tmp_path)
    make(folder, "x86-64-v2", goal="all")
    if best is None:  # there is no code for it
        run(["sh", "-c", f"! qemu-x86_64 -cpu {cpu} ./selftest 2>said && grep 'no code for this processor' said && "
             f"! qemu-x86_64 -cpu {cpu} ./example"], folder)
    else:
        assert OK.findall(run(["qemu-x86_64", "-cpu", cpu, "./selftest"], folder))[0] == best
        run(["qemu-x86_64", "-cpu", cpu, "./example"], folder)


BOARD = {
    "memory": {"memory": "fast=8192,sram=1M", "threads": "none"},
    "groups": {"weight_groups": 3, "weights": "array"},
    "stream": {"weights": "stream", "threads": "none"},
    "all": {"weight_groups": 2, "weights": "incbin", "memory": "fast=8192,sram=1M,slow=1M",
            "threads": "none"}}


@pytest.mark.parametrize("options", BOARD)
def test_memories_groups_and_streams(exported, tmp_path, options):
    """One image of weights, and memories of which each is as large as the most that a target needs: what is left out
    by a target that another one has is right, too."""
    made = exported("conv_net", target="x86-64-v2+x86-64-v3", **BOARD[options])
    folder = copy(made.folder, tmp_path)
    need("qemu-x86_64")
    make(folder, "x86-64-v2", goal="all")
    for cpu, best in (("Haswell", "x86-64-v3"), ("Nehalem", "x86-64-v2")):
        found = OK.findall(run(["qemu-x86_64", "-cpu", cpu, "./selftest"], folder))
        assert found[0] == best and found[-1] == "x86-64-v2"
        run(["qemu-x86_64", "-cpu", cpu, "./example"], folder)
    names = sorted(f.name for f in folder.glob("*_weights*") if "x86" not in f.name and f.suffix in (".c", ".S", ".bin"))
    stems = {"memory": ["weights"], "stream": ["weights"], "groups": [f"weights_{n}" for n in range(3)],
             "all": ["weights_0", "weights_1"]}[options]
    ends = {"groups": [".c"], "stream": [".bin"]}.get(options, [".S", ".bin"])
    assert names == sorted(f"conv_net_{stem}{end}" for stem in stems for end in ends)


def test_each_memory_is_the_largest_that_a_target_needs(exported):
    made = exported("conv_net", target="x86-64-v2+x86-64-v3", **BOARD["memory"])

    def macros(file):
        text = (made.folder / file).read_text()
        return {name: int(n) for name, n in re.findall(r"define \w+?_(ARENA(?:_\w+)?_BYTES) (\d+)u", text)}
    own, *each = map(macros, ("conv_net.h", "conv_net_x86_64_v2.h", "conv_net_x86_64_v3.h"))
    assert own["ARENA_SRAM_BYTES"] == max(m["ARENA_SRAM_BYTES"] for m in each) > 0
    assert own["ARENA_BYTES"] == 64 + max(m["ARENA_BYTES"] for m in each) <= 8192
    readme = (made.folder / "README.md").read_text()
    assert "CONV_NET_ARENA_SRAM_BYTES" in readme and str(own["ARENA_BYTES"]) in readme


@pytest.mark.parametrize("cpu, best", [("cortex-a53", "aarch64-linux-gnu"), ("cortex-a76", "aarch64-dotprod"),
                                       ("max", "aarch64-i8mm")])
def test_arm(exported, tmp_path, cpu, best):
    """QEMU says by AT_HWCAP and AT_HWCAP2 what a processor has."""
    folder = copy(exported("conv_net", target=ARM).folder, tmp_path)
    if cpu == "cortex-a76" and "cortex-a76" not in run(["sh", "-c", "qemu-aarch64 -cpu help || true"]):
        pytest.skip("this QEMU has no Cortex-A76")
    assert OK.findall(make(folder, "aarch64-linux-gnu", runner("aarch64-linux-gnu", "-cpu", cpu)))[0] == best


def test_the_sources_build_for_one_target_alone(exported, tmp_path):
    folder = copy(exported("conv_net", target=X86).folder, tmp_path)
    for file in folder.glob("*x86_64_v4*"):
        file.unlink()
    for file in folder.glob("*x86_64_v2*"):
        file.unlink()
    text = (folder / "Makefile").read_text()
    (folder / "Makefile").write_text(re.sub(r"\S+_x86_64_v[24]\w*\.h", "", text))
    if not is_supported_here(Target.get("x86-64-v3")):
        pytest.skip("this processor is older")
    assert OK.findall(make(folder, "x86-64-v3", "TARGETS=x86-64-v3")) == ["x86-64-v3"]


def test_cmake_gives_each_file_its_flags(exported, tmp_path):
    need("cmake")
    need_compiler("cc")
    if not is_supported_here(Target.get("x86-64-v2")):
        pytest.skip("this is no x86")
    folder = exported("conv_net", target=X86).folder
    run(["cmake", "-S", folder, "-B", tmp_path, "-DCONV_NET_TARGETS=x86-64-v3;x86-64-v2"])
    run(["cmake", "--build", tmp_path, "-j", "2"])
    assert "x86-64-v2" in OK.findall(run([tmp_path / "conv_net_selftest"], folder))
    flags = " ".join(f.read_text() for f in tmp_path.rglob("flags.make"))
    assert "-march=x86-64-v3" in flags and "-march=x86-64-v4" not in flags


def test_symbolic_dimensions(tmp_path):
    """The arena is as large as the most that a target needs, for all sizes."""
    library = ingot.compile(attention_net(), name="attention", target=X86, threads="none")
    folder = library.export(tmp_path / "attention")
    assert OK.findall(make(folder, "x86-64-v2"))


def test_the_interface_is_that_of_one_target(exported):
    """But for what the notes say, the functions that choose, and the sizes."""
    def declared(target):
        text = (exported("conv_net", target=target).folder / "conv_net.h").read_text()
        return set(re.findall(r"\bconv_net_\w+(?=\()|\bCONV_NET_\w+", text))
    several, one = declared(X86), declared("x86-64-v3")
    assert several - one == {"conv_net_init_target_", "conv_net_init_target", "conv_net_runs_target",
                             "CONV_NET_TARGETS"}
    assert one - several == {"conv_net_set_profile"}


def test_equal_weights_lie_in_the_file_once(exported):
    """x86-64-v4 and x86-64-v4-vnni differ in nothing that a network of floats has."""
    both = exported("conv_net", target="x86-64-v4+x86-64-v4-vnni").folder
    one = exported("conv_net", target="x86-64-v4").folder
    file = "conv_net_weights.bin"
    assert (both / file).read_bytes() == (one / file).read_bytes()
    sizes = (exported("conv_net", target=X86).folder / file).stat().st_size
    alone = [exported("conv_net", target=t.name).folder for t in targets_of(X86)]
    assert sizes < sum((folder / file).stat().st_size for folder in alone)


def test_python_runs_the_best_that_fits(exported):
    library = exported("conv_net", target=X86).library
    if not is_supported_here(Target.get("x86-64-v2")):
        pytest.skip("this is no x86")
    x = np.random.default_rng(0).random([1, 3, 13, 11], np.float32)
    alone = exported("conv_net", target=library.model.target.name).library
    np.testing.assert_array_equal(library(x), alone(x))


@pytest.mark.parametrize("target, said", [
    ("x86-64-v3+x86-64-v3", "names x86-64-v3 twice"),
    ("x86-64-v3+aarch64-linux-gnu", "no processors of one family"),
    ("aarch64-linux-gnu+armv7-linux-gnueabihf", "no processors of one family"),
    ("x86-64-v3+cuda", "cuda is no processor's"),
    ("cortex-m4f+cortex-m7", "nothing tells when a program runs"),
    ("aarch64-cortex-a76+aarch64-neoverse-n1", "have the same instruction sets"),
    ("x86-64-v3+fast", "unknown target 'fast'")])
def test_targets_that_no_folder_is_for(target, said):
    with pytest.raises(ValueError, match=said):
        ingot.compile(load("conv_net"), target=target)


def test_what_takes_one_target():
    library = ingot.compile(load("conv_net"), target=X86)
    with pytest.raises(ValueError, match="a single file is compiled with the flags of one target"):
        library.dispatched.files(single_file=True)
    with pytest.raises(ValueError, match="zephyr builds a package with the flags of one target"):
        library.dispatched.files(package="zephyr")
    with pytest.raises(ValueError, match="fast has 36 bytes, and must hold the instance"):
        ingot.compile(load("conv_net"), target=X86, memory={"fast": 100, "sram": "1M"}, threads="none")
    with pytest.raises(ValueError, match="of constant size: give each symbolic"):
        ingot.compile(attention_net(), target=X86, memory={"sram": "1M"}, threads="none")
    with pytest.raises(ValueError, match="give a shorter name"):
        ingot.compile(load("conv_net"), target=X86, name="n" * 30)
    with pytest.raises(ValueError, match="names several targets, which only compile takes"):
        ingot.verify(load("conv_net"), target=X86)


def test_every_instruction_set_has_a_bit():
    for row in ROWS.values():
        if row.name in TOOLCHAINS and (bits := FEATURE_BITS.get(toolchain(row).arch)):
            assert row.isa <= bits.keys(), row.name
            assert sum(map(int.bit_count, feature_words(row)[:-1])) == len(row.isa)


def test_a_compiler_agrees_on_the_bits(tmp_path):
    """gcc's own test of a feature says the same of this processor."""
    need("gcc")
    if not is_supported_here(Target.get("x86-64-v2")) or shutil.which("gcc") is None:
        pytest.skip("this is no x86")
    names = {"avx512vbmi": "avx512vbmi", "avx512_vnni": "avx512vnni", "sse4_1": "sse4.1", "sse4_2": "sse4.2",
             **{n: n for n in ("ssse3", "popcnt", "avx", "avx2", "fma", "bmi1", "bmi2", "avx512f", "avx512bw",
                               "avx512dq", "avx512cd", "avx512vl")}}
    names["bmi1"] = "bmi"
    header = ingot.codegen.package.RUNTIME / "ingot_dispatch.h"
    lines = []
    for word, name in names.items():
        n, bit = FEATURE_BITS["x86_64"][word]
        needs = [hex(1 << bit if k == n else 0) + "u" for k in range(6)]
        lines.append(f'{{ const uint32_t needs[6] = {{{", ".join(needs)}}}; bad += '
                     f'ingot_has_features(needs) != !!__builtin_cpu_supports("{name}"); }}')
    source = tmp_path / "bits.c"
    source.write_text(f'#include "{header}"\nint main(void) {{ int bad = 0;\n' + "\n".join(lines) + "\nreturn bad; }\n")
    run(["gcc", "-O1", *STRICT[:-1], source, "-o", tmp_path / "bits"])
    run([tmp_path / "bits"])
