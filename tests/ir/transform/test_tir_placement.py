"""Where temporaries are allocated, how large, and which it drops."""
from tir_cases import CASES, arguments, assert_same_results, block, loop, results

from ingot.ir import te, tir
from ingot.ir.expr import Var, const
from ingot.ir.node import Visitor
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.rules import schedule_by_rule
from ingot.ir.tir.verifier import verify
from ingot.ir.transform.compact_buffers import compact_buffers
from ingot.ir.transform.lower_blocks import convert_blocks_to_opaque, lower_init_block, lower_opaque_block
from ingot.ir.transform.pipeline import lower_prim_func
from ingot.ir.transform.place_buffers import place_buffers
from ingot.ir.transform.remove_no_op import remove_no_op
from ingot.ir.transform.walk import blocks
from ingot.script import tir as T
from machines import machine


def declared(func):
    """{buffer name: (names of the loops around, shape)} once blocks are loops."""
    found, path = {}, []

    class Scan(Visitor):
        def visit_For(self, f):
            path.append(f.loop_var.name)
            self.visit(f.body)
            path.pop()

        def visit_DeclBuffer(self, d):
            found[d.buffer.name] = tuple(path), tuple(s.value for s in d.buffer.shape)
            self.visit(d.body)

    for run in (lower_init_block, remove_no_op, place_buffers, convert_blocks_to_opaque, compact_buffers,
                lower_opaque_block):
        func = run(func)
    Scan().visit(func.body)
    return found


def two_stages(schedule, shape=(6, 8), shift=0):
    """b = a + 1; c = b * 2 at `shift` columns further on, scheduled."""
    a = te.placeholder((shape[0], shape[1] + shift), name="a")
    b = te.compute((shape[0], shape[1] + shift), lambda i, j: a[i, j] + 1.0, name="b")
    c = te.compute(shape, lambda i, j: b[i, j] + b[i, j + shift] if shift else b[i, j] * 2.0, name="c")
    sch = Schedule(te.create_prim_func([a, c]))
    schedule(sch)
    return sch.func


def at(depth):
    def schedule(sch):
        sch.compute_at(sch.get_block("b"), sch.get_loops(sch.get_block("c"))[depth])
    return schedule


def test_a_buffer_used_everywhere_stays_whole():
    assert declared(two_stages(lambda sch: None)) == {"b": ((), (6, 8))}


def test_a_row_inside_the_loop_over_rows():
    assert declared(two_stages(at(0))) == {"b": (("i",), (1, 8))}


def test_one_element_is_a_local_scalar():
    func = two_stages(at(1))
    assert declared(func) == {"b": (("i", "j"), (1, 1))}
    buffer = lower_prim_func(func).body.body.body.buffer
    assert (buffer.scope, buffer.shape[0].value) == ("local", 1)


def test_a_halo_is_kept():
    assert declared(two_stages(at(0), shift=3)) == {"b": (("i",), (1, 11))}

    def tiled(sch):
        i, j = sch.get_loops(sch.get_block("c"))
        jo, _ = sch.split(j, [None, 4])
        sch.compute_at(sch.get_block("b"), jo)

    func = two_stages(tiled, shift=3)
    assert declared(func) == {"b": (("i", "j_0"), (1, 7))}
    inputs = arguments(func)
    assert_same_results(results(func, inputs), lower_prim_func(func), inputs)


def test_convolution_tiles_shrink_to_the_tile():
    x, w = te.placeholder((1, 16, 10, 14), name="x"), te.placeholder((3, 16, 3, 3, 16), name="w")
    ic, kh, kw = (te.reduce_axis((0, n), name) for n, name in ((16, "ic"), (3, "kh"), (3, "kw")))
    packed = te.compute((1, 3, 8, 12, 16), lambda n, oo, y, z, oi: te.sum(
        x[n, ic.var, y + kh.var, z + kw.var] * w[oo, ic.var, kh.var, kw.var, oi], [ic, kh, kw]), name="conv2d_packed")
    conv = te.compute((1, 40, 8, 12), lambda n, c, y, z: packed[n, c // 16, y, z, c % 16], name="conv2d")
    out = te.compute((1, 40, 8, 12), lambda n, c, y, z: tir.max(conv[n, c, y, z], 0.0), name="relu")
    func = schedule_by_rule(te.create_prim_func([x, w, out]), machine()).func
    for name, (path, shape) in declared(func).items():
        elements = 1
        for s in shape:
            elements *= s
        assert path and elements <= 32 * 16, f"{name} has {elements} elements, more than the registers hold"
    inputs = arguments(func)
    assert_same_results(results(func, inputs), lower_prim_func(func), inputs)


def test_carried_buffers_stay_outside():
    """All that is written in an iteration of a scan, since a part of it may be read in the next."""
    assert declared(CASES["running_sum"]()) == {"state": ((), (4,)), "twice": ((), (4,))}


def test_accumulators_stay_outside_reduction_loops():
    def schedule(sch):
        relu = sch.get_block("relu")
        sch.compute_at(sch.get_block("matmul"), sch.get_loops(relu)[1])
    sch = Schedule(CASES["matmul"]())
    schedule(sch)
    assert declared(sch.func)["matmul"] == (("i", "j"), (1, 1))


def test_what_a_turn_reads_first_stays_outside():
    """A loop that no block iterator names still hands `last` on when its iteration reads it before it writes it."""
    x, y, last = tir.decl_buffer((5,), name="x"), tir.decl_buffer((5,), name="y"), tir.decl_buffer((1,), name="last")
    i, zero = Var("v_i"), const(0)
    body = tir.seq(
        block("start", [], tir.BufferStore(last, const(0.0), (zero,))),
        loop("i", 5, lambda n: tir.seq(
            block("difference", [(i, 5, "spatial", n)], tir.BufferStore(y, x[i] - last[zero], (i,))),
            block("keep", [(i, 5, "spatial", n)], tir.BufferStore(last, x[i], (zero,))))))
    func = tir.prim_func([x, y], body, alloc_buffers=[last])
    assert declared(func)["last"] == ((), (1,))
    inputs = arguments(func)
    assert_same_results(results(func, inputs), lower_prim_func(func), inputs)


def test_siblings_share_from_outside():
    """The second parallel loop reads what the first wrote."""
    def schedule(sch):
        for name in "bc":
            sch.parallel(sch.get_loops(sch.get_block(name))[0])
    assert declared(two_stages(schedule)) == {"b": ((), (6, 8))}


def test_lanes_of_a_vectorized_loop_share_no_buffer():
    def schedule(sch):
        at(1)(sch)
        sch.vectorize(sch.get_loops(sch.get_block("c"))[1])
    func = two_stages(schedule)
    assert declared(func)["b"][0] == ("i",)
    inputs = arguments(func)
    assert_same_results(results(func, inputs), lower_prim_func(func), inputs)


def test_dead_stages_vanish():
    """`unused`, and `only_for_unused`, which nothing else reads."""
    x, y = tir.decl_buffer((4,), name="x"), tir.decl_buffer((4,), name="y")
    only, unused, never = (tir.decl_buffer((4,), name=n) for n in ("only_for_unused", "unused", "never"))
    i = Var("v_i")
    stages = (only, x[i]), (unused, only[i] + x[i]), (y, x[i] * 2.0)
    body = tir.seq(*(loop(f"i{n}", 4, lambda at: block(f"b{n}", [(i, 4, "spatial", at)], tir.BufferStore(
        out, value, (i,)))) for n, (out, value) in enumerate(stages)))
    func = tir.prim_func([x, y], body, alloc_buffers=[only, unused, never])
    assert declared(func) == {}
    lowered = lower_prim_func(func)
    assert "unused" not in str(lowered) and str(lowered).count("range") == 1


def test_data_dependent_indices_keep_a_buffer_whole():
    a, rows = te.placeholder((9, 4), name="a"), te.placeholder((3,), "int64", "rows")
    b = te.compute((9, 4), lambda i, j: a[i, j] * 2.0, name="b")
    func = te.create_prim_func([a, rows, te.compute((3, 4), lambda i, j: b[rows[i], j], name="take")])
    assert declared(func) == {"b": ((), (9, 4))}


def test_a_block_that_allocates_says_what_statements_outside_of_blocks_access():
    @T.prim_func
    def sums(a: T.Buffer((4, 8), "float32"), which: T.Buffer((4,), "int32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("row"):
                vi = T.axis.spatial(4, i)
                total = T.alloc_buffer((1,), "float32")
                for j in range(2):
                    total[0] = T.float32(0)
                    for k in range(8):
                        total[0] += a[which[vi], k]
                    b[vi] = total[0]

    placed = place_buffers(sums)
    verify(placed)
    made = next(b for b in blocks(placed.body) if b.name_hint == "alloc_total")
    assert [{r.buffer.name for r in regions} for regions in (made.reads, made.writes)] == [{"a", "which"}, {"b"}]
