"""The onnx package's own backend tests: its node tests, collected in process, and the models that it stores, but those
that it would download; cast to C, or of operators' definitions as graphs, run, and compared with what they expect."""
import contextlib
import io
import re
import warnings
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import SequenceProto, TensorProto
from onnx.backend.test.loader import load_model_tests
from onnx.numpy_helper import to_array, to_list
from value_target import is_fourth, small_target

import ingot
from ingot.codegen.target import Target
from ingot.codegen.toolchain import ToolchainError
from ingot.codegen.toolchains import TOOLCHAINS, toolchain
from ingot.frontend.onnx import OnnxImportError, from_onnx
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.verifier import verify

PASSES, WRONG = "passes", "wrong"
# Cases whose expected numbers are the rounding errors of a transform in float32, of which the exact result is 0.
NOISE = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}


@lru_cache(maxsize=1)
def node_cases():
    """{name: onnx's TestCase}. Their data is made while they are collected; what that prints and warns is not ours."""
    from onnx.backend.test.case.node import collect_testcases
    state = np.random.get_state()
    with (contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()),
          warnings.catch_warnings()):
        warnings.simplefilter("ignore")
        found = {case.name: case for case in collect_testcases(None)}
    np.random.set_state(state)
    for case in found.values():
        case.data_sets = [(_arrays(inputs), _arrays(outputs)) for inputs, outputs in case.data_sets]
    return dict(sorted(found.items()))


SUITES = ("simple", "pytorch-converted", "pytorch-operator")  # "real" has addresses of files alone


@lru_cache(maxsize=1)
def model_cases():
    """{suite/name: onnx's TestCase} of the models that the package stores."""
    return {f"{suite}/{case.name}": _loaded(case) for suite in SUITES for case in load_model_tests(kind=suite)}


def _loaded(case):
    """A stored case with its model and data."""
    folder = Path(case.model_dir)
    graph = (model := onnx.load(folder / "model.onnx")).graph
    weights = {t.name for t in graph.initializer}
    interface = ("input", [i for i in graph.input if i.name not in weights]), ("output", graph.output)
    return replace(case, model=model, data_sets=[
        tuple([_value(info.type, place / f"{kind}_{k}.pb") for k, info in enumerate(infos)]
              for kind, infos in interface)
        for place in sorted(folder.glob("test_data_set_*"))])


def _value(kind, path):
    """An array, or a list of them."""
    if kind.HasField("sequence_type"):
        return to_list(SequenceProto.FromString(path.read_bytes()))
    return to_array(TensorProto.FromString(path.read_bytes()))


def all_cases():
    return {**node_cases(), **model_cases()}


def _arrays(values):
    """Inputs or outputs of a case, with arrays where it has TensorProtos."""
    values = list(values.values()) if isinstance(values, dict) else values
    return [to_array(v) if isinstance(v, TensorProto) else v for v in values]


@lru_cache(maxsize=1)
def quick_target():
    """This machine's target, compiled without optimization: tests of values, not of speed."""
    host = Target.get("host")
    flags = (*(f for f in toolchain(host).cflags if not f.startswith("-O")), "-O0")
    TOOLCHAINS["quick"] = replace(toolchain(host), name="quick", cflags=flags)
    return replace(host, name="quick")


def target_of(name):
    """This machine's target for every fourth case, plain C, which is built sooner, for the others."""
    return quick_target() if is_fourth(name) else small_target()


def is_composed(case):
    """Whether a case is an operator's definition by other operators, which have cases of their own. Every fourth is
    compiled as they are, and those whose numbers of 16 bits kernels round less often; of the others the graph that the
    importer makes is evaluated."""
    arrays = all(isinstance(a, np.ndarray) and (a.dtype.kind, a.itemsize) not in (("f", 2), ("V", 2))
                 for inputs, _ in case.data_sets for a in inputs)
    return "_expanded" in case.name and arrays and not is_fourth(case.name)


def network_of(case, target=None):
    """What a case's inputs are given to, as a context; target: that it is compiled for."""
    if target is None and is_composed(case):
        with contextlib.suppress(OnnxImportError):
            module = verify(from_onnx(case.model))
            return nullcontext(lambda *inputs: evaluate(module, inputs))
    return ingot.compile(case.model, target=target or target_of(case.name), opt_level=1, threads="none",
                         weights="array", name="node_test")


def status(case, target=None):
    """PASSES, WRONG followed by what differs, or why the case is refused: one line, without the names of the case.
    What is wrong by tcc, whose own mistakes are none of ours, is what it is by cc."""
    found = _status(case, target)
    by_tcc = target is None and not is_composed(case) and target_of(case.name).name == "small"
    return _status(case, Target.get("c")) if by_tcc and found.startswith(WRONG) else found


def _status(case, target):
    try:
        with network_of(case, target) as library:
            for number, (inputs, outputs) in enumerate(case.data_sets):
                found = library(*inputs)
                found = list(found) if isinstance(found, tuple) else [found]
                if RANDOM.match(case.name):
                    outputs = [f.astype(o.dtype).reshape(o.shape) for f, o in zip(found, outputs) if f.shape == o.shape]
                if error := difference(outputs, found, case.rtol, NOISE.get(case.name, case.atol)):
                    return f"{WRONG}: data set {number}: {error}"
    except ToolchainError as error:
        return f"{WRONG}: its C does not build: {error}"
    except Exception as error:  # noqa: BLE001  (what is raised is what the ledger records)
        return reason(error)
    return PASSES


def difference(expected, found, rtol, atol):
    """Describe the first difference between two lists of outputs; "" if they agree."""
    if len(expected) != len(found):
        return f"{len(found)} outputs, not {len(expected)}"
    for number, (want, got) in enumerate(zip(expected, found)):
        if isinstance(want, (list, tuple)) and isinstance(got, (list, tuple)):
            if error := difference(want, got, rtol, atol):
                return f"output {number}: {error}"
            continue
        if want is None and got is None:
            continue
        if isinstance(want, (list, tuple)) or want is None or isinstance(got, (list, tuple)) or got is None:
            return f"output {number} is {type(got).__name__}, where {type(want).__name__} is expected"
        want, got = np.asarray(want), np.asarray(got)
        if want.shape != got.shape or want.dtype != got.dtype:
            return f"output {number}: {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        least = SMALL.get(want.dtype.name, rtol)
        same = np.isclose(got.astype(wide), want.astype(wide), rtol=max(rtol, least), atol=atol, equal_nan=True)
        if not np.all(same):
            where = tuple(int(i) for i in np.argwhere(~same)[0])
            return (f"output {number}: {np.sum(~same)} of {same.size} elements differ, the first at {list(where)}: "
                    f"{got[where]}, not {want[where]}")
    return ""


# bfloat16: what is expected was rounded after each of many operators, and networks compute in float32 between them; so
# results may be two units in the last place from it.
SMALL = {"bfloat16": 2 * float(ml_dtypes.finfo("bfloat16").eps)}
# Cases whose expected numbers are random: results are of the same kind, and drawn by another generator.
RANDOM = re.compile(r"test_bernoulli|test_training_dropout(_default)?(_mask)?$")
_NODE = re.compile(r"^(\w+) node .*?(?: \(opset \d+\))?: ")


def reason(error):
    """One line that cases refused for one reason share: no names of nodes and tensors, no shapes, no opsets."""
    text = str(error)
    kind = type(error).__name__
    if "cannot be imported" in text:
        return f"{kind}: no operator {text.split(chr(10), 1)[-1].split('(')[0].strip()}"
    first = text.split("\n")[0].split(";")[0]
    first = re.sub(_NODE, r"\1: ", first)
    first = re.sub(r"\"[^\"]*\"|'[^']*'", "_", first)
    first = re.sub(r"\d+", "N", first)
    return f"{kind}: {first[:100]}"
