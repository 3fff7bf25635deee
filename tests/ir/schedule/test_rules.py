"""Schedules by rule: they keep what a kernel computes, have the intended structure, and never fail."""
import functools
import zlib

import pytest
from compiled_batch import same_results
from rule_cases import CASES, const, kernels, network
from tir_cases import CASES as PROGRAMS

from ingot import topi
from ingot.ir import te
from ingot.ir.expr import Call, is_const_int
from ingot.ir.node import collect, structural_equal
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.rules import schedule_by_rule
from ingot.ir.tir.hints import THREAD_ROWS
from ingot.ir.tir.stmt import BufferStore, DeclBuffer, For, IfThenElse
from ingot.ir.transform.pipeline import lower_prim_func
from machines import machine, set_costs, with_costs

WIDE, NARROW = machine(16, 32), machine(4, 16, parallel=False)
SMALL = machine(8, 16, l2_bytes=256)  # so that rows are in blocks, and columns are prefetched
OTHERS = (machine(1, 16), machine(8, 16), machine(4, 32, parallel=False, accumulators=21, by_element=True))


def cpus(name):
    """Two machines, one of them another for every case."""
    return WIDE, (NARROW, *OTHERS)[zlib.crc32(name.encode()) % (1 + len(OTHERS))]


@pytest.fixture
def threads_for_all_work(monkeypatch):
    set_costs(monkeypatch, {"threads.least_work": 1})


@pytest.mark.parametrize("name", CASES)
def test_results_are_kept(name, threads_for_all_work):
    """By the schedule and the passes after it, and by replaying the trace."""
    for cpu in cpus(name):
        for func in kernels(name, cpu):
            sch = schedule_by_rule(func, cpu)
            same_results(func, sch.func)
            again = Schedule(func)
            sch.trace.apply(again)
            assert structural_equal(again.func, sch.func)
            kinds = {loop.kind for loop in collect(sch.func.body, For)}
            assert cpu.parallel or "parallel" not in kinds
            assert cpu.lanes > 1 or all(is_const_int(loop.extent, 1) for loop in collect(sch.func.body, For)
                                if loop.kind == "vectorized")


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_program_can_be_scheduled(name):
    for cpu in (WIDE, OTHERS[1]):
        func = PROGRAMS[name]()
        same_results(func, schedule_by_rule(func, cpu).func)


def test_what_was_refused_is_said():
    """An output is not computed in another's loops."""
    refused, = schedule_by_rule(PROGRAMS["two_outputs_at_once"](), WIDE).refused
    assert refused.startswith("row_reduction: compute_at: argument 'block': block top is an output block: it writes")
    assert schedule_by_rule(kernels("conv_residual_odd", WIDE)[-1], WIDE).refused == ()


def test_loops_that_threads_may_not_share_are_said(threads_for_all_work):
    """Turns of a reduction add to the same element."""
    func, = kernels("sum_all_whole", WIDE)
    refused, = schedule_by_rule(func, WIDE).refused
    assert refused.startswith("threads: parallel: argument 'loop': loop k0_k1_k2_fused_0 runs the reduce iterator")


def test_scheduling_is_deterministic():
    texts = [[str(schedule_by_rule(f, WIDE).trace) for f in kernels("conv_residual_odd", WIDE)] for _ in range(2)]
    assert texts[0] == texts[1]


# ---------------------------------------------------------------- register tiles

TILED = ["conv_3x3", "conv_3x3_odd_channels", "conv_3x3_strided", "conv_3x3_dilated", "conv_1x1",
         "conv_1x1_odd_channels", "conv_1x1_one_pixel", "conv_grouped", "conv_residual", "conv_residual_odd",
         "conv_batch", "dense", "dense_odd_columns", "dense_few_columns", "dense_one_row", "dense_3d", "dense_sinh",
         "matmul", "matmul_odd", "matmul_one_row", "matmul_one_row_odd", "matmul_sinh", "matmul_sinh_odd",
         "matmul_batched", "matmul_broadcast"]


@pytest.mark.parametrize("cpu", [WIDE, NARROW, machine(8, 16), machine(4, 32)], ids=str)
def test_register_tiles(cpu):
    """Accumulators are a local array of vectors, no more than the registers; no condition is in their reduction."""
    for name in TILED:
        func = kernels(name, cpu)[-1]
        widths = [4, 8, 16] if name == "conv_grouped" else [cpu.lanes]  # a group's channels fill half a vector, say
        lowered = lower_prim_func(schedule_by_rule(func, cpu).func)
        tiles = {id(d.buffer): d.buffer for d in collect(lowered.body, DeclBuffer) if d.buffer.dtype.lanes in widths}
        assert tiles, name
        assert all(b.shape[0].value < cpu.registers for b in tiles.values()), name
        reductions = innermost_reductions(lowered, tiles)
        assert reductions, name
        assert not collect(reductions, IfThenElse), name


@pytest.mark.parametrize("name", ["attention_any_length", "attention_any_keys", "attention_any_queries"])
def test_attention_of_any_length(name, threads_for_all_work):
    """Its threads keep a few rows of scores on their stacks; packed keys alone are as many as there are keys."""
    lanes = {"attention_any_length": 16, "attention_any_keys": 8, "attention_any_queries": 4}[name]
    cpu = machine(lanes, 32 if lanes == 16 else 16)
    func, = (f for f in kernels(name, cpu) if "attention" in f.buffers[-1].name)
    lowered = lower_prim_func(schedule_by_rule(func, cpu).func)
    assert lowered.attrs["num_workspace"] == 1
    assert "parallel" in {loop.kind for loop in collect(lowered.body, For)}
    tiles = {id(d.buffer): d.buffer for d in collect(lowered.body, DeclBuffer) if d.buffer.dtype.lanes == lanes}
    assert all(b.shape[0].value < cpu.registers for b in tiles.values())
    reductions = innermost_reductions(lowered, tiles)
    assert len(reductions) >= 4 and not collect(reductions, IfThenElse)


def test_attention_of_rows_that_tiles_do_not_divide():
    """Tiles of rows, the last one cut off by a condition: nothing is refused."""
    for name in ("attention_odd", "attention_rows"):
        assert all(schedule_by_rule(func, WIDE).refused == () for func in kernels(name, WIDE))


def innermost_reductions(func, buffers):
    """The rolled loops around the code that updates the given buffers."""
    loops = [f for f in collect(func.body, For) if f.annotations.get("pragma_unroll") == 1]
    return [f for f in loops if any(id(s.buffer) in buffers for s in collect(f, BufferStore))]


@pytest.mark.parametrize("rows", [1, 5, 14, 29])
@pytest.mark.parametrize("columns", [16, 19, 32, 37, 112, 130])
def test_no_condition_in_the_reduction_of_a_product(rows, columns):
    """By packed columns or, for every other shape, by columns that are data."""
    other = [] if (rows + columns // 16) % 2 else [(8, columns)]
    func, = kernels(lambda: network(lambda op, a, *b: op("nn.relu", op("matmul", a, *(b or [const(8, columns)]))),
                                    [(rows, 8), *other]), WIDE)
    lowered = lower_prim_func(schedule_by_rule(func, WIDE).func)
    rolled = [f for f in collect(lowered.body, For) if f.annotations.get("pragma_unroll") == 1]
    assert rolled and not collect(rolled, IfThenElse)
    assert any(d.buffer.dtype.lanes == 16 for d in collect(lowered.body, DeclBuffer))


def lowered_with_same_results(case, cpu):
    """The one kernel of a case, scheduled and lowered, with the results of the kernel as it was."""
    func, = kernels(case, cpu)
    return same_results(func, schedule_by_rule(func, cpu).func)


def test_a_product_of_a_matrix_with_itself():
    lowered_with_same_results(functools.partial(network, lambda op, x: op("matmul", x, x), [(48, 48)]), WIDE)


@pytest.mark.parametrize("rows, columns", [(7, 100), (13, 37), (5, 33), (6, 48), (40, 99)])
def test_results_leave_registers_where_columns_are_no_whole_panels(rows, columns, threads_for_all_work):
    """In whole vectors and a part of one, of one lane too."""
    bias = const(columns)
    case = functools.partial(network, lambda op, x: op("nn.relu", op("add", op("matmul", x, const(9, columns)), bias)),
                             [(rows, 9)])
    for cpu in (WIDE, NARROW, machine(8, 16)):
        lowered = lowered_with_same_results(case, cpu)
        own = [d.buffer for d in collect(lowered.body, DeclBuffer)]
        assert own and all(b.dtype.lanes == cpu.lanes for b in own)


@pytest.mark.parametrize("rows, depth, columns", [(50, 9, 64), (53, 7, 100), (24, 16, 48), (61, 5, 8)])
def test_rows_in_blocks(rows, depth, columns, threads_for_all_work):
    """More rows than L2 holds: blocks of them, in each of which all columns pass, prefetched."""
    case = functools.partial(network, lambda op, x: op("nn.relu", op("matmul", x, const(depth, columns))),
                             [(rows, depth)])
    for cpu in (SMALL, SMALL.alone(), with_costs(WIDE, l2_bytes=256), with_costs(NARROW, l2_bytes=256)):
        lowered = lowered_with_same_results(case, cpu)
        several = columns > 8 and cpu.lanes < 16
        assert not several or any(c.op == "tir.prefetch" for c in collect(lowered.body, Call))


@pytest.mark.parametrize("shapes", [[(35, 9), (9, 48)], [(2, 33, 5), (2, 5, 64)], [(3, 2, 40, 6), (6, 64)]], ids=str)
def test_operands_packed_on_the_fly(shapes, threads_for_all_work):
    """Operands that many rows read go to panels of vectors first, and are prefetched from there; not for few rows."""
    def case():
        return network(lambda op, a, b: op("nn.relu", op("matmul", a, b)), shapes)

    for cpu in (with_costs(SMALL, l1_bytes=64), with_costs(NARROW, l1_bytes=64, l2_bytes=256)):
        func, = kernels(case, cpu)
        sch = schedule_by_rule(func, cpu)
        lowered = same_results(func, sch.func)
        assert "transform_layout" in str(sch.trace)
        assert any(c.op == "tir.prefetch" for c in collect(lowered.body, Call))
    assert "transform_layout" not in str(schedule_by_rule(*kernels("matmul", SMALL), SMALL).trace)


@pytest.mark.parametrize("activations", [False, True])
@pytest.mark.parametrize("rows, depth, columns, epilogue", [(35, 96, 32, "nn.relu"), (33, 72, 32, "nn.gelu")])
def test_long_sums_in_parts(rows, depth, columns, epilogue, activations, threads_for_all_work, monkeypatch):
    set_costs(monkeypatch, {"tile.most_terms": 16})
    shapes = [(rows, depth), (depth, columns)]
    bias = const(columns)

    def case():
        return network(lambda op, a, *b: op(epilogue, op("add", op("matmul", a, *(b or [const(*shapes[1])])), bias)),
                       shapes if activations else shapes[:1])

    for cpu in (with_costs(cpu, l1_bytes=64, l2_bytes=10_000) for cpu in (SMALL, WIDE, NARROW)):
        func, = kernels(case, cpu)
        sch = schedule_by_rule(func, cpu)
        assert "rfactor" in str(sch.trace)
        same_results(func, sch.func)


def test_long_sums_without_an_epilogue(monkeypatch):
    """All sums are a tensor in memory, of plain elements, which is workspace where it is large."""
    set_costs(monkeypatch, {"tile.most_terms": 32})
    for shapes in ([(48, 160), (160, 96)], [(48, 160)]):
        func, = kernels(lambda: network(lambda op, a, *b: op("matmul", a, *(b or [const(160, 96)])), shapes), WIDE)
        cpu = with_costs(WIDE, l1_bytes=64, l2_bytes=37_000)
        sch = schedule_by_rule(func, cpu)
        lowered = same_results(func, sch.func)
        assert "rfactor" in str(sch.trace)
        assert lowered.attrs["num_workspace"] > 0 and all(b.dtype == "float32" for b in lowered.buffers)


@pytest.mark.parametrize("rows, depth, columns, chains", [(1, 32, 2, True), (1, 20, 16, True), (2, 16, 5, True),
                                                          (1, 21, 3, False), (1, 32, 96, False)])
@pytest.mark.parametrize("activations", [False, True])
def test_few_sums_in_chains(rows, depth, columns, chains, activations):
    """Each would wait for its last term; where a tile has enough of them, they wait for none."""
    shapes, bias = [(rows, depth), (depth, columns)], const(columns)

    def case():
        return network(lambda op, a, *b: op("nn.relu", op("add", op("matmul", a, *(b or [const(*shapes[1])])), bias)),
                       shapes if activations and columns >= 16 else shapes[:1])

    for cpu in (WIDE, machine(parallel=False)):
        func, = kernels(case, cpu)
        assert ("rfactor" in str(schedule_by_rule(func, cpu).trace)) == chains
        lowered_with_same_results(case, cpu)
    for cpu in (SMALL, NARROW, OTHERS[2]):
        lowered_with_same_results(case, cpu)


@pytest.mark.parametrize("rows, columns, threads", [(33, 512, False), (45, 512, False), (33, 2048, True),
                                                    (35, 2048, True)])
def test_columns_are_copied_in_groups(rows, columns, threads, threads_for_all_work):
    """A large operand comes to L2 some panels at a time, in each thread, from rows in memory; where the
    rows of the product leave no room for a group, all panels are copied before."""
    cpu = machine(l2_bytes=60_000, parallel=threads)
    shapes = [(rows, 32), (32, columns)]
    func, = kernels(lambda: network(lambda op, a, b: op("nn.relu", op("matmul", a, b)), shapes), cpu)
    lowered = same_results(func, schedule_by_rule(func, cpu).func)
    assert _columns_copied(lowered) == 128
    assert _columns_copied(lower_prim_func(schedule_by_rule(func, with_costs(cpu, l2_bytes=5000)).func)) in (0, columns)


def _columns_copied(lowered):
    """Columns of the second operand that a lowered product of depth 32 copies at a time; 0 if it reads them in
    place."""
    buffers = {s.buffer.name: s.buffer for s in collect(lowered.body, BufferStore)}
    return buffers["x1_global"].shape[0].value // 32 if "x1_global" in buffers else 0


def test_sums_stay_whole():
    """Sums of few rows, of odd columns, of few terms, of a length that no part divides, with a scalar epilogue,
    more than caches hold."""
    for rows, depth, columns, epilogue in ((8, 4096, 64, "nn.relu"), (512, 2048, 37, "nn.relu"),
                                           (512, 2048, 1024, "nn.relu"), (512, 512, 64, "nn.relu"),
                                           (512, 2039, 64, "nn.relu"), (512, 2048, 64, "sinh"),
                                           ("n", 2048, 64, "nn.relu")):
        func, = kernels(lambda: network(lambda op, x: op(epilogue, op("matmul", x, const(depth, columns))),
                                        [(rows, depth)]), WIDE)
        assert "rfactor" not in str(schedule_by_rule(func, WIDE).trace)


def test_products_that_have_no_vectors_are_not_tiled():
    tiled = {name: "unrolled" in {loop.kind for loop in collect(
        schedule_by_rule(kernels(name, WIDE)[0], WIDE).func.body, For)} for name in ("matmul_int32", "matmul_float64")}
    assert tiled == {"matmul_int32": True, "matmul_float64": False}


def test_names_promise_nothing():
    """Blocks called *_packed that are no reductions over packed operands are scheduled by another rule."""
    x = te.placeholder((6, 37), "float32", "x")
    copy = te.compute((6, 37), lambda i, j: x[i, j] * 2.0, "weights_packed")
    k = te.reduce_axis((0, 37), "k")
    rows = te.compute((6,), lambda i: te.sum(copy[i, k.var], k), "conv2d_packed")
    func = te.create_prim_func([x, rows])
    sch = schedule_by_rule(func, WIDE)
    same_results(func, sch.func)
    assert sch.get_block("conv2d_packed_rf_update")  # a sum of a row, in lanes


# ---------------------------------------------------------------- the other rules

def local_sizes(name, cpu=WIDE):
    """{buffer: elements} of the local memory of a network's last kernel."""
    lowered = lower_prim_func(schedule_by_rule(kernels(name, cpu)[-1], cpu).func)
    return {d.buffer.name: d.buffer.shape[0].value for d in collect(lowered.body, DeclBuffer)}


@pytest.mark.parametrize("name, expected", [
    ("max_pool", {"max_pool2d_local": 6}),
    ("avg_pool", {"avg_pool2d_sum_local": 6}),
    ("conv_depthwise", {"conv2d_local": 9}),
    ("mean_channels", {"mean_sum_local": 7}),
    ("matmul_narrow", {"matmul_local": 3}),
    ("softmax", {"softmax_max_local": 1, "softmax_max_local_rf": 1, "softmax_exp_local": 3, "softmax_sum_local": 1,
                 "softmax_sum_local_rf": 1, "softmax_scale_local": 1}),
    ("softmax_whole", {"softmax_max_local": 1, "softmax_max_local_rf": 1, "softmax_exp_local": 3,
                       "softmax_sum_local": 1, "softmax_sum_local_rf": 1, "softmax_scale_local": 1}),
    ("layer_norm", {"layer_norm_sum_local": 1, "layer_norm_sum_local_rf": 1, "layer_norm_mean_local": 1,
                    "layer_norm_var_local": 1, "layer_norm_var_local_rf": 1, "layer_norm_rstd_local": 1}),
    ("mean_whole", {"mean_sum_local": 1, "mean_sum_local_rf": 1}),
    ("mean", {"mean_sum_local": 1}),
    ("sum_all", {"sum_local": 1}),
    ("matmul_dot", {"matmul_local": 1, "matmul_local_rf": 1}),
    ("chain", {"tanh_local": 1}),
])
def test_temporaries_are_a_row_or_a_scalar(name, expected):
    """A row that is read and written by vectors counts these, of which the last may be there in part."""
    assert local_sizes(name) == expected


@pytest.mark.parametrize("name, vectors", [("softmax_whole", 2), ("layer_norm", 2), ("mean_whole", 1), ("softmax", 2),
                                           ("softmax_symbolic", 2), ("argmax", 1), ("mean", 0), ("mean_uneven", 0)])
def test_reductions_over_rows_run_in_lanes(name, vectors):
    """Reductions over dimensions that do not divide, that are symbolic or look for an index stay scalar."""
    sch = schedule_by_rule(kernels(name, WIDE)[-1], WIDE)
    partial = [d for d in sch.get_child_blocks(sch.get_block("root")) if sch.get(d).name_hint.endswith("_rf_update")]
    assert len(partial) == vectors
    assert all(sch.get(sch.get_loops(b)[-1]).kind == "vectorized" for b in partial)
    assert vectors or "split" not in str(sch.trace)


@pytest.mark.parametrize("name, count", [("relu", 1), ("concat", 2), ("chain", 2), ("broadcast_rows", 2),
                                         ("transpose", 3), ("gather", 3)])
def test_rows_in_memory_are_one_loop(name, count):
    """The most loops around a store: what every access runs through in order is fused."""
    sch = schedule_by_rule(kernels(name, WIDE)[-1], WIDE)
    depth = max(len(sch.get_loops(b)) for b in sch.get_child_blocks(sch.get_block("root")))
    assert depth == count


# ---------------------------------------------------------------- threads

@pytest.mark.parametrize("build, shapes, expected", [
    (lambda op, x: op("nn.conv2d", x, const(64, 16, 3, 3)), [(1, 16, 58, 58)], 2),
    (lambda op, x: op("matmul", x, const(64, 256)), [(128, 64)], 1),
    (lambda op, a, b: op("matmul", a, b), [(12, 64, 64), (12, 64, 64)], 1),
    (lambda op, x: op("nn.max_pool2d", x, pool_size=(3, 3), strides=(2, 2)), [(1, 64, 113, 113)], 2),
    (lambda op, x: op("nn.softmax", x), [(12, 128, 128)], 2),
    (lambda op, x: op("nn.relu", x), [(1, 64, 56, 56)], 1),
    (lambda op, x: op("nn.pad", x, pad_width=(0, 0, 0, 0, 1, 1, 1, 1)), [(1, 64, 56, 56)], 1),
    (lambda op, x: op("nn.relu", x), [(1, 64, 7, 7)], 0),
    (lambda op, x: op("mean", x, axis=(0,)), [(512, 4000)], 1),
])
def test_work_is_shared_among_threads(build, shapes, expected):
    """How many loops run in parallel; small kernels have none, and no model without threads."""
    func, = kernels(lambda: network(build, shapes), WIDE)
    counts = [sum(f.kind == "parallel" for f in collect(schedule_by_rule(func, cpu).func.body, For))
              for cpu in (WIDE, machine(16, 32, parallel=False))]
    assert counts == [expected, 0]


@pytest.mark.parametrize("channels, height, loops, by_rows", [
    (32, 112, 2, True), (8, 14, 2, True), (32, 14, 1, False), (32, 3, 1, False)])
@pytest.mark.parametrize("build", [
    lambda op, x, s: op("multiply", x, s),
    lambda op, x, s: op("multiply", op("nn.max_pool2d", x, pool_size=(1, 3), layout="NCHW16c"), s)],
    ids=["elementwise", "pool"])
def test_what_threads_share_of_blocked_images(build, channels, height, loops, by_rows, threads_for_all_work):
    """Rows where there are many or channels are few, else channels."""
    func = kernels(lambda: network(build, [(1, channels, height, 9, 16), (1, channels, 1, 1, 16)]), WIDE)[-1]
    shared = [f for f in collect(schedule_by_rule(func, WIDE).func.body, For) if f.kind == "parallel"]
    assert len(shared) == loops
    assert sum(THREAD_ROWS in f.annotations for f in shared) == by_rows


def test_a_padded_image_that_many_channels_read_is_made_once(threads_for_all_work):
    """Of a convolution as LegalizeOps writes it; in the middle of its sums no term would be asked whether it is inside."""
    data, weight = te.placeholder((1, 4, 5, 18), name="data"), te.placeholder((6, 4, 3, 3), name="weight")
    func = te.create_prim_func([data, weight, topi.nn.conv2d_nchw(data, weight, 1, 1, 1)])
    for cpu in (WIDE, NARROW):
        sch = schedule_by_rule(func, cpu)
        same_results(func, sch.func)
        asked = [s for s in collect(sch.func, BufferStore) if any(
            c.op == "tir.if_then_else" for c in collect(s.value, Call))]
        assert [s.buffer.name for s in asked] == ["pad_temp"]
