"""Every model of the zoo: the same numbers as onnxruntime, an arena near its lower bound, and quick to cast."""
import resource
import time
from types import SimpleNamespace

import pytest

import ingot
from ingot.ir.arith import Analyzer
from networks import onnxruntime_outputs, relative_error, zoo, zoo_names, needs_zoo

NAMES = zoo_names or [pytest.param("none", marks=needs_zoo)]


def child_seconds():
    """Processor time of the finished processes that this one started: it does not depend on what else runs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.fixture(scope="module", params=NAMES)
def case(request):
    """A model, compiled once for all tests; pytest has one at a time."""
    proto = zoo().load(request.param)
    with ingot.compile(proto, target="host", opt_level=2) as library:
        yield SimpleNamespace(proto=proto, library=library)


def test_matches_onnxruntime(case):
    feeds = zoo().inputs(case.proto)
    expected = onnxruntime_outputs(case.proto, feeds)
    found = case.library.run(feeds)
    assert list(found) == [output.name for output in case.proto.graph.output]
    for a, b in zip(found.values(), expected):
        assert relative_error(a, b) <= 1e-4


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
    the second cache, so have those that they divide differently: the bound is the sum of each kind's."""
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


@needs_zoo
def test_resnet50_is_cast_and_built_in_time(tmp_path, monkeypatch):
    """File to library within 30 s of two cores: 60 s of processor time."""
    import onnx
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path / "cache"))
    onnx.save(zoo().load("resnet50"), tmp_path / "resnet50.onnx")
    start = time.process_time() + child_seconds()
    library = ingot.compile(tmp_path / "resnet50.onnx", target="host", opt_level=2)
    library.export(tmp_path / "resnet50")
    with library:
        library.build()
    assert time.process_time() + child_seconds() - start <= 60
