"""Targets: rows, names, detection of the host."""
import copy
import pickle
import subprocess
from dataclasses import replace

import pytest

from ingot.codegen.target import Target, TargetError, host_name
from ingot.codegen.toolchain import find_compiler, missing_tools
from ingot.codegen.toolchains import is_supported_here, toolchain
from ingot.ir.node import load_json, save_json, structural_equal
from ingot.ir.script.functions import from_source
from ingot.script import tir as T

V2 = frozenset("cx16 popcnt sse4_1 sse4_2 ssse3".split())
V3 = frozenset("avx avx2 bmi1 bmi2 f16c fma movbe xsave".split())
V4 = V3 | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())
VNNI = V4 | {"avx512_vnni"}
VBMI = VNNI | {"avx512vbmi"}
ZEN4 = VBMI | {"avx512_vbmi2", "AuthenticAMD", "family 25"}
N1 = frozenset("asimd asimddp asimdhp asimdrdm atomics crc32 fphp lrcpc".split()) | {"part 0xd0c"}
LANES = {  # of every row, in order
    "x86-64-v2": 4, "x86-64-v3": 8, "x86-64-v4": 16, "x86-64-v3-vnni": 8, "x86-64-v4-vnni": 16, "x86-64-v4-vbmi": 16,
    "x86-64-v4-bf16": 16, "x86-64-v4-zen4": 16, "x86-64-v4-amx": 16, "aarch64-linux-gnu": 4, "aarch64-dotprod": 4,
    "aarch64-i8mm": 4, "aarch64-fp16": 4, "aarch64-bf16": 4,
    "aarch64-neoverse-n1": 4, "aarch64-cortex-a53": 4, "aarch64-cortex-a72": 4, "aarch64-cortex-a76": 4,
    "armv7-linux-gnueabihf": 4, "s390x-linux-gnu": 1, "riscv64-linux-gnu": 1, "riscv64-v": 16,
    "armv7-vfpv3-linux-gnueabihf": 1,
    "cortex-m0plus": 1, "cortex-m3": 1, "rv32imc": 1, "cortex-m4f": 1, "cortex-m7": 1, "cortex-m33": 1,
    "cortex-m55": 1, "cortex-m85": 1, "rv32imafc": 1, "wasm32": 1, "wasm32-simd128": 4, "c-simd": 8,
    "c": 1, "cuda-sm_80": 4, "cuda-sm_90a": 4, "cuda": 4,
    "opencl": 4}
MACROS = {
    "x86-64-v2": {"__SSE4_2__", "__POPCNT__"},
    "aarch64-cortex-a53": {"__ARM_NEON"},
    "aarch64-cortex-a76": {"__ARM_NEON", "__ARM_FEATURE_DOTPROD"},
    "riscv64-linux-gnu": {"__riscv_float_abi_double"},
    "riscv64-v": {"__riscv_v"},
    "armv7-vfpv3-linux-gnueabihf": {"__ARM_FP", "INGOT_SIMD_SCALAR"},
    "cortex-m0plus": {"__ARM_ARCH_6M__"},
    "cortex-m4f": {"__ARM_FP", "__ARM_FEATURE_DSP"},
    "cortex-m55": {"__ARM_FEATURE_MVE"},
    "rv32imc": {"__riscv_float_abi_soft"},
    "rv32imafc": {"__riscv_float_abi_single"},
    "x86-64-v3": {"__AVX2__", "__FMA__"},
    "x86-64-v4": {"__AVX512F__", "__AVX2__", "__FMA__"},
    "x86-64-v3-vnni": {"__AVX2__", "__AVXVNNI__"},
    "x86-64-v4-vnni": {"__AVX512F__", "__AVX512VNNI__"},
    "x86-64-v4-vbmi": {"__AVX512VNNI__", "__AVX512VBMI__"},
    "x86-64-v4-bf16": {"__AVX512F__", "__AVX512VBMI__", "__AVX512BF16__"},
    "x86-64-v4-zen4": {"__AVX512F__", "__AVX512VBMI2__", "__FMA__"},
    "x86-64-v4-amx": {"__AVX512F__", "__FMA__", "__AMX_INT8__"},
    "aarch64-linux-gnu": {"__ARM_NEON"},
    "aarch64-dotprod": {"__ARM_NEON", "__ARM_FEATURE_DOTPROD"},
    "aarch64-i8mm": {"__ARM_FEATURE_DOTPROD", "__ARM_FEATURE_MATMUL_INT8"},
    "aarch64-fp16": {"__ARM_FEATURE_DOTPROD", "__ARM_FEATURE_FP16_VECTOR_ARITHMETIC"},
    "aarch64-bf16": {"__ARM_FEATURE_MATMUL_INT8", "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC"},
    "aarch64-neoverse-n1": {"__ARM_NEON", "__ARM_FEATURE_DOTPROD"},
    "armv7-linux-gnueabihf": {"__ARM_NEON", "__ARM_FEATURE_FMA"},
    "s390x-linux-gnu": {"__s390x__"},
    "wasm32": {"__wasm__", "__wasi__", "INGOT_SIMD_SCALAR"},
    "wasm32-simd128": {"__wasm_simd128__"},
    "c": {"INGOT_SIMD_SCALAR"},
}


def test_names():
    assert Target.names() == ("host", *LANES)
    assert {name: Target.get(name).lanes for name in LANES} == LANES
    assert [str(Target.get(name).kind) for name in [*LANES][-4:]] == ["cuda"] * 3 + ["opencl"]
    assert str(Target.get("c")) == "c"


def test_get_accepts_a_target_and_the_name_of_tvm():
    row = Target.get("x86-64-v3")
    assert Target.get(row) is row
    assert Target.get("llvm") == Target.get("host")


@pytest.mark.parametrize("text, name", [
    ("llvm -mcpu=znver4", "x86-64-v4-zen4"), ("llvm -mcpu=znver5", "x86-64-v4-vbmi"),
    ("llvm -mcpu=haswell -num-cores 4", "x86-64-v3"), ("c -mcpu=generic", "c"),
    ("llvm -mcpu=sapphirerapids", "x86-64-v4-amx"),
    ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72", "aarch64-cortex-a72"),
    ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", "aarch64-neoverse-n1"), ("llvm -keys=cpu", "host"),
    ("llvm -mtriple=armv7l-linux-gnueabihf -mattr=+neon", "armv7-linux-gnueabihf"),
    ("llvm -mcpu=native -mtriple=x86_64-linux-gnu", "host"),
    ("cuda -arch=sm_80", "cuda-sm_80"), ("cuda -arch=sm_90", "cuda-sm_90a"), ("nvidia/nvidia-a100", "cuda-sm_80"),
    ("nvidia/nvidia-h100", "cuda-sm_90a"), ("nvidia/geforce-rtx-3090", "cuda-sm_80"),
])
def test_strings_of_tvm(text, name):
    assert Target(text) == Target.get(name)


@pytest.mark.parametrize("text, message", [
    ("llvm -mcpu=z80", "-mcpu 'z80' is not known; known: native, .*; or name one of host"),
    ("llvm -mtriple=sparc-sun", "-mtriple 'sparc-sun' is not known; known: x86_64"),
    ("llvm -fast", "the flag -fast is not known; known: -mcpu, -mtriple, .* and without effect -keys"),
    ("cuda -arch=sm_30", "there is no code for -arch 'sm_30'; known: sm_80"),
    ("opencl -mcpu=a", "the flag -mcpu is not known; known: -max_num_threads, "),
    ("cuda-sm_80 -arch=sm_90", "the flag -arch is not known"), ("cudafoo", "unknown target 'cudafoo'"),
    ("cuda -thread_warp_size=64", "warps of cuda have 32 threads"), ("metal -max_num_threads=0", "a number above 0"),
    ("llvm -mcpu=haswell -mattr=+fma,-avx2", "code for x86-64-v3 uses avx2; name a target without it"),
    ("llvm -mtriple=armv7l-linux-gnueabi -mfloat-abi=soft", "there is no code for -mfloat-abi=soft, but for hard"),
    ({"kind": 3}, "says its kind"), ({"libs": "a"}, "says its kind"),
    (3, "a target is a name or a Target, not a int"),
])
def test_strings_that_are_refused(text, message):
    with pytest.raises(TargetError, match=message):
        Target.get(text)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(TargetError, match=r"unknown target 'sparc'; known: host, x86-64-v2, .*, opencl$"):
        Target.get("sparc")


@pytest.mark.parametrize("machine, flags, name", [
    ("x86_64", VBMI | {"amx_tile", "amx_int8"}, "x86-64-v4-amx"), ("x86_64", V4 | {"amx_tile"}, "x86-64-v4"),
    ("x86_64", VNNI, "x86-64-v4-vnni"), ("x86_64", V3 | {"avx_vnni"}, "x86-64-v3-vnni"),
    ("x86_64", V4, "x86-64-v4"), ("x86_64", ZEN4, "x86-64-v4-zen4"),
    ("x86_64", ZEN4 - {"family 25"} | {"family 26"}, "x86-64-v4-vbmi"),
    ("x86_64", ZEN4 - {"AuthenticAMD"}, "x86-64-v4-vbmi"), ("x86_64", ZEN4 - {"avx512_vbmi2"}, "x86-64-v4-vbmi"),
    ("x86_64", ZEN4 - {"avx512_vnni"}, "x86-64-v4"),
    ("x86_64", V3 | {"AuthenticAMD", "family 25"}, "x86-64-v3"), ("x86_64", V3, "x86-64-v3"),
    ("x86_64", V3 - {"fma"}, "c"),
    ("x86_64", V2, "x86-64-v2"), ("aarch64", frozenset({"crc32", "part 0xd08"}), "aarch64-cortex-a72"),
    ("aarch64", frozenset(), "aarch64-linux-gnu"), ("aarch64", N1, "aarch64-neoverse-n1"),
    ("aarch64", N1 - {"part 0xd0c"}, "aarch64-fp16"), ("aarch64", N1 | {"i8mm"}, "aarch64-neoverse-n1"),
    ("aarch64", frozenset({"asimddp", "i8mm"}), "aarch64-i8mm"),
    ("armv7l", frozenset({"neon", "vfpv4"}), "armv7-linux-gnueabihf"),
    ("armv7l", frozenset({"vfpv3"}), "armv7-vfpv3-linux-gnueabihf"), ("armv7l", frozenset(), "c"),
    ("riscv64", frozenset(), "riscv64-linux-gnu"), ("s390x", frozenset(), "s390x-linux-gnu"),
])
def test_host(machine, flags, name):
    assert host_name(machine, flags) == name


def test_the_host_runs_its_own_target():
    assert is_supported_here(Target.get("host"))
    assert is_supported_here(Target.get("c"))


@pytest.mark.parametrize("name", MACROS)
def test_flags_enable_the_backend(name):
    target = Target.get(name)
    if reason := missing_tools(target):
        pytest.skip(reason)
    command = [*find_compiler(target).command, *toolchain(target).cflags, "-dM", "-E", "-x", "c", "-"]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    defined = {line.split()[1] for line in done.stdout.splitlines()}
    assert MACROS[name] <= defined
    assert "__FAST_MATH__" not in defined


def test_the_classic_face():
    target = Target(target="llvm -mcpu=haswell", host="llvm")
    assert target.without_host() == Target.get("x86-64-v3") and target.host == Target.get("host")
    assert str(target.kind) == "c" and target.kind.name == "llvm" and Target.get("x86-64-v3").kind.name == "c"
    assert Target({"kind": "llvm", "mcpu": "haswell", "mattr": ["+avx2", "+fma"]}) == Target.get("x86-64-v3")
    with pytest.raises(TargetError, match="unknown target 'sparc'"):
        Target("llvm", host="sparc")
    assert replace(target, byte_order="big").name == target.name and replace(target, byte_order="big") != target


def test_current_is_that_of_the_innermost_with():
    assert Target.current() is None
    with pytest.raises(ValueError, match="no target is current: write `with tvm.target.Target"):
        Target.current(allow_none=False)
    with Target("c") as outer:
        with Target("x86-64-v3") as inner:
            assert Target.current() is inner
        assert Target.current(allow_none=False) is outer
    assert Target.current() is None


@pytest.mark.parametrize("given", [
    lambda: Target("cuda", host="c"), lambda: Target("cuda --host c"), lambda: Target("cuda -host=c -arch=sm_100"),
    lambda: Target({"kind": "cuda", "host": {"kind": "c"}}), lambda: Target("cuda", host="opencl").with_host("c"),
    lambda: Target(Target("cuda", host="c"))])
def test_a_target_keeps_its_host(given):
    target = given()
    assert target.host == Target("c") and target.name == "cuda" and target != Target("cuda")
    assert target.without_host() == Target("cuda") and Target("cuda").host is None


def test_programs_say_targets_and_hosts():
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):
        T.func_attr({"target": T.target("cuda", host="c"), "other": T.target({"kind": "unheard", "keys": []})})
        T.attr(T.target("cuda"), "target", 0)
        A[0] = T.float32(1)

    assert f.attrs["target"].host == Target("c") and f.attrs["other"] == {"kind": "unheard", "keys": []}
    assert 'T.target("cuda", host="c")' in f.script()
    assert structural_equal(from_source(f.script()), f) and structural_equal(load_json(save_json(f)), f)
    assert not structural_equal(f.with_attr("target", Target("cuda")), f)


# ---------------------------------------------------------------- what scripts ask

def test_flags_of_a_target_string():
    target = Target.get("llvm -mcpu=skylake-avx512 -num-cores 4 -libs=cblas,mkl -device=arm_cpu -vector-width=256")
    assert target.kind == "c" and (target.kind.name, Target.get("c").kind.name) == ("llvm", "c")
    assert target == Target.get("x86-64-v4") and hash(target) == hash(Target.get("x86-64-v4"))
    assert target.attrs == {"mcpu": "skylake-avx512", "num-cores": 4, "libs": ["cblas", "mkl"], "device": "arm_cpu",
                            "vector-width": 256}
    assert (target.mcpu, target.libs, target.keys, target.device_name, target.model) == (
        "skylake-avx512", ["cblas", "mkl"], ["arm_cpu", "cpu"], "arm_cpu", "unknown")
    for same in (copy.copy(target), copy.deepcopy(target), pickle.loads(pickle.dumps(target))):
        assert same == target and same.options == target.options and same.kind.name == "llvm"
    again = Target.get(target.with_host("c").export())
    assert again == target.with_host("c") and again.libs == target.libs
    assert Target.get('{"kind": "llvm", "libs": ["cblas"]}').libs == ["cblas"]
    assert (target.num_cores, target.arch, target.mattr, target.max_function_args) == (4, "", [], 0)
    assert not hasattr(target, "max_num_threads") and Target.get("llvm -link-params").attrs == {"link-params": 1}
    board = Target.get({"kind": "llvm", "model": "Pi 4 --host=cuda", "link-params": False})
    assert board.model == "Pi 4 --host=cuda" and board.attrs["link-params"] == 0 and board.host is None
    assert Target.get({"tag": "nvidia/nvidia-a100"}).name == "cuda-sm_80"
    for wrong, message in (('{"kind"', "is no JSON"), ({"kind": "llvm", "libs": {"a": 1}}, "a list of these, not")):
        with pytest.raises(TargetError, match=message):
            Target.get(wrong)


@pytest.mark.parametrize("name", ["cuda", "cuda -arch=sm_90a", "nvidia/geforce-rtx-3090 -libs=cublas", "apple/m1-gpu"])
def test_limits_of_a_gpu(name):
    target = Target.get(name)
    assert target.max_num_threads == target.attrs["max_threads_per_block"] == 1024 and "gpu" in target.keys
    assert Target.get(target.export()) == target and Target.get(target.export()).libs == target.libs
    if target.kind == "cuda":
        assert target.arch == ("sm_90a" if "90a" in name else "sm_80") and target.thread_warp_size == 32


@pytest.mark.parametrize("text, threads, shared", [
    ("cuda -max_threads_per_block=512 -max_shared_memory_per_block=100000", 512, 48 << 10),
    ("opencl -max_num_threads=128 -max_threads_per_block=512 -thread_warp_size=1", 128, 32 << 10),
    ("metal -max_threads_per_block=1024 -max_shared_memory_per_block=1000", 1024, 1000)])
def test_limits_that_flags_set_hold(text, threads, shared):
    target = Target(text, host="c")
    assert (target.launch.max_threads, target.launch.shared_bytes) == (threads, shared)
    assert (target.max_threads_per_block, target.attrs["max_shared_memory_per_block"]) == (threads, shared)
    assert Target(target.export()) == target != Target(target.name, host="c")

    @T.prim_func
    def f():
        T.evaluate(0)

    f = f.with_attr("target", target)
    assert structural_equal(from_source(f.script()), f) and structural_equal(load_json(save_json(f)), f)
