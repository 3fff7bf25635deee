"""Every model of the zoo: the numbers of every tensor that survives, the same outputs as onnxruntime, layers that all
matter to them, and an arena near its lower bound."""
from types import SimpleNamespace

import pytest

import ingot
from compiled import compiled, layers, own_weights, zeroed
from guards import run_guarded
from ingot.ir.arith import Analyzer
from networks import onnxruntime_outputs, relative_error, zoo, zoo_names, needs_zoo

pytestmark = pytest.mark.optimization("-O3")
NAMES = zoo_names or [pytest.param("none", marks=needs_zoo)]

# Of a tensor's largest magnitude. Without a layer an output errs by at least a hundred times as much.
TOLERANCE = 1e-4
MATTERS = 100 * TOLERANCE
MOST_LAYERS = 48

# Weights that no output depends on, {model: [name]}.
IDLE = {
    # A bias of the keys adds the same number to all scores of a query, and softmax takes it away again.
    "vit_small": ["m_vit_layers_11_attention_k_proj_bias_own"],
    # Of the backward layer only the last time is read, which is its first: there was no state before it.
    "kws_gru_lstm": ["onnx_LSTM_419"],
}


@pytest.fixture(scope="module", params=NAMES)
def case(request):
    """A model, compiled once for all tests; pytest has one at a time. Weights in a file: tests change them."""
    proto = zoo().load(request.param)
    with compiled(proto, target="host", opt_level=2, weights="file") as network:
        feeds = zoo().inputs(proto)
        yield SimpleNamespace(name=request.param, proto=proto, feeds=feeds, network=network, library=network.library)


@pytest.fixture(scope="module")
def expected(case):
    return onnxruntime_outputs(case.proto, case.feeds)


def largest_error(library, feeds, expected):
    return max(relative_error(a, b) for a, b in zip(library.run(feeds).values(), expected, strict=True))


def test_every_tensor_matches_the_reference(case):
    report = case.network.compare(case.feeds, TOLERANCE)
    assert report.ok, "\n".join(f"{r.node} {r.shape}: {r.error:.2e} of {r.scale:.2e}" for r in report.rows if not r.ok)
    assert len(report.rows) >= min(4, len(case.proto.graph.node))


def test_outputs_match_onnxruntime(case, expected):
    assert list(case.library.run(case.feeds)) == [output.name for output in case.proto.graph.output]
    assert largest_error(case.library, case.feeds, expected) <= TOLERANCE


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a network without a layer may compute what is no number
def test_a_layer_of_zeros_is_seen(case, expected):
    """The comparison above fails for a network without one of its layers, whichever it is."""
    unseen = []
    with own_weights(case.library) as weights:
        for weight in layers(case.library.model.program, most=MOST_LAYERS):
            with zeroed(weights, weight):
                if largest_error(case.library, case.feeds, expected) < MATTERS:
                    unseen.append(weight.name)
        assert largest_error(case.library, case.feeds, expected) <= TOLERANCE
    assert not set(unseen) - set(IDLE.get(case.name, ()))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_comparison_of_tensors_sees_a_layer_of_zeros(case):
    """And says where: no tensor computed before the layer differs."""
    program = case.network.exposed.model.program
    weight = layers(program, least=256, most=3)[1]
    with own_weights(case.network.exposed) as weights, zeroed(weights, weight):
        report = case.network.compare(case.feeds, TOLERANCE)
    assert not report.ok and (report.rows[0].ok or len(report.rows) < 8)


def test_nothing_outside_is_touched(case, tmp_path):
    run_guarded(case.library, case.feeds, tmp_path)


def test_no_rule_is_refused(case):
    """Nor a loop to threads. What another schedules instead, or one thread does, would be right, and slow."""
    assert not [k.function.name for k in case.library.model.kernels.values() if "refused to rule" in k.comment]


def alive_together(rows):
    """The buffers that live at one time, for each time when one begins to."""
    return [[row for row in rows if row.first <= step <= row.last] for step in {row.first for row in rows}]


def sum_alive(rows):
    """The largest sum of bytes at one time."""
    return max(sum(row.bytes for row in together) for together in alive_together(rows))


def test_arena_is_near_its_lower_bound(case):
    """And tensors that live at one time have bytes of their own. Where threads share a network whose tensors all fit
    L2, so have those that they divide differently: the bound is the sum of each kind's."""
    report, model, kinds = ingot.memory_report(case.library), case.library.model, {}
    for row, buffer in zip(report.rows, model.program.plan.buffers, strict=True):
        kinds.setdefault(Analyzer().simplify(buffer.part).value, []).append(row)
    lower_bound, apart = sum_alive(report.rows), sum(map(sum_alive, kinds.values()))
    assert lower_bound <= report.total
    assert report.total <= 1.10 * lower_bound or (
        model.most_threads > 1 and report.total <= min(1.10 * apart, model.target.l2_bytes))
    for rows in alive_together(report.rows):
        rows = sorted(rows, key=lambda row: row.offset)
        assert all(a.offset + a.bytes <= b.offset for a, b in zip(rows, rows[1:]))
        assert rows[-1].offset + rows[-1].bytes <= report.total
