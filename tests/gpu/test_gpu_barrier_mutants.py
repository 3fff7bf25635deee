"""Each barrier that the passes put into kernels is needed: without it the emulator sees a race. A run leaves out some
of them, other ones each day; INGOT_GPU_ALL=1 leaves out each."""
import os
import random
import re
from collections import Counter
from datetime import date

import emulated
import pytest
from folders import folder_of
from networks import attention_net, conv_net, recurrent_net
from test_gpu_printed import _Batch, at_random, by_hand

pytestmark = pytest.mark.skipif(emulated.MISSING is not None, reason=str(emulated.MISSING))
ALL = os.environ.get("INGOT_GPU_ALL") == "1"
SEED = int(os.environ.get("INGOT_SEED", date.today().toordinal()))
NETWORKS = {"conv_net": conv_net, "recurrent_net": recurrent_net, "attention_net": attention_net,
            "attention_on_cores": lambda: attention_net(length=70)}
DTYPES = {"attention_on_cores": "float16"}  # of those that are not computed in float32
# Barriers that threads could do without: before they read a sum back that only the thread which made it uses, and what
# keeps that apart from the sum of the next turn; where each thread reads what it wrote, by a loop of symbolic extent;
# where what other threads read was written before the last turn, which has barriers.
READ_BACK = re.compile(r"(\w+_partial)(?:\[0\])? = \1_shared\[")
SPARED = {"attention_net_shares_4": 1, "matmul_5_0": 1, "matmul_symbolic_5_0": 1}


def spared(kernel, text):
    """How many barriers of a kernel may not be needed."""
    body = text.partition(f" {kernel}(")[2].partition("\n}\n")[0]
    return SPARED.get(kernel, 2 * len(READ_BACK.findall(body)))


def unneeded(missed, text):
    """Those of the kernels of barriers nobody missed that have more than they may."""
    return {kernel: count for kernel, count in Counter(missed).items() if count > spared(kernel, text)}


def chosen(numbers, most):
    numbers = [*numbers]
    return numbers if ALL or len(numbers) <= most else sorted(random.Random(SEED).sample(numbers, most))


def test_barriers_of_schedules_by_hand_and_at_random(tmp_path):
    batch = _Batch([*by_hand(), *at_random(8)])
    text = "\n".join(batch.text)
    functions = {}  # name: its launches, in order
    for launch in batch.launches:
        functions.setdefault(launch[0].rpartition("_")[0], []).append(launch)
    kernels = {n: kernel for kernel, numbers in emulated.barriers(text).items() for n in numbers}
    mutants = [(name, n) for name, launches in functions.items() for kernel, *_ in launches
               for n in emulated.barriers(text)[kernel]]
    assert len(mutants) > 60, len(mutants)
    tried = [(name, -1) for name in functions] + chosen(mutants, 120)
    calls = [(functions[name], {a: batch.arrays[a] for *_, args, _ in functions[name] for a in args
                                if isinstance(a, str)}, n) for name, n in tried]
    library = emulated.build_kernels(text, tmp_path / "k.so", seen=True)
    found = dict(zip(tried, emulated.run_library(library, calls)))
    assert {name: found[name, -1] for name in functions if isinstance(found[name, -1], str)} == {}
    missed = [kernels[n] for name, n in tried if n >= 0 and not isinstance(found[name, n], str)]
    assert not unneeded(missed, text) and len(missed) < len(tried) / 8


@pytest.mark.parametrize("name", NETWORKS)
def test_barriers_of_networks(name, tmp_path):
    folder_of(NETWORKS[name](), tmp_path / "net", name, dtype=DTYPES.get(name, "float32"))
    program = emulated.build_program(tmp_path / "net", tmp_path / "selftest", seen=True)
    clean = emulated.run_program(program)
    assert clean.returncode == 0, clean.stderr
    mutants = {n: kernel for _, text, first in emulated.kernels_of(tmp_path / "net")
               for kernel, numbers in emulated.barriers(text, first).items() for n in numbers}
    missed = [mutants[n] for n in chosen(mutants, 12)
              if "emulator: " not in emulated.run_program(program, EMU_DROP=n).stderr]
    text = "".join(text for _, text, _ in emulated.kernels_of(tmp_path / "net"))
    assert mutants and not unneeded(missed, text) and len(missed) <= 2
