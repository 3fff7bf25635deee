"""For which target tests of values build: plain C by tcc, which takes a fifth of the time, but for every fourth."""
import os
import shutil
import zlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from ingot.codegen import toolchain, toolchains
from ingot.codegen.target import Target
from ingot.codegen.toolchains import TOOLCHAINS


@lru_cache(maxsize=1)
def small_target():
    """Plain C by tcc, linked by cc; this machine's target where there is no tcc."""
    if shutil.which("tcc") is None:
        return Target.get("host")
    plain, find = Target.get("c"), toolchain.find_compiler
    TOOLCHAINS["small"] = replace(toolchains.toolchain(plain), name="small", cflags=("-DINGOT_SIMD_SCALAR",),
                                  gcc_cflags=())
    tcc = toolchain.Compiler(("sh", str(Path(__file__).with_name("tcc_and_cc.sh"))), "tcc", "tcc")
    toolchain.find_compiler = lambda target: tcc if Target.get(target).name == "small" else find(target)
    return replace(plain, name="small")


def is_fourth(name):
    """Whether what is called so is one of the fourth that is built as users do."""
    return zlib.crc32(name.encode()) % 4 == 0


def value_target():
    """The target of the test that runs: this machine's for every fourth."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    return Target.get("host") if is_fourth(test) else small_target()
