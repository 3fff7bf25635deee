"""Kernels spread over files so that a build takes about as long for each, whatever they unroll."""
from dataclasses import replace

import numpy as np
from tir_cases import CASES, loop

import ingot
from ingot.codegen.compile import Options
from ingot.codegen.scheduling import scheduled
from ingot.codegen.kernels import STATEMENTS_PER_FILE, Kernel, count_statements, print_kernel, split_files
from ingot.ir import tir
from ingot.ir.expr import Var, const
from ingot.ir.schedule.rules import Decision
from ingot.ir.tir.stmt import BufferStore
from ingot.ir.transform.pipeline import lower_prim_func
from networks import load

Y = tir.decl_buffer((64,), name="y")


def store(i):
    return BufferStore(Y, const(0.0), (i,))


def kernels(*sizes):
    return [replace(Kernel(None, ""), statements=s) for s in sizes]


def sizes(files):
    return [[k.statements for k in file] for file in files]


def test_unrolled_loops_count_as_often_as_they_run():
    assert count_statements(store(const(0))) == 1
    assert count_statements(loop("i", 8, store)) == 2
    assert count_statements(loop("i", 8, store, "unrolled")) == 9
    nested = loop("i", 4, lambda i: loop("j", 8, lambda j: tir.seq(store(i), store(j)), "unrolled"), "unrolled")
    assert count_statements(nested) == 1 + 4 * (1 + 8 * 2)
    asked = tir.For(Var("i"), const(0), const(100), "serial", store(const(0)), annotations={"pragma_unroll": 3})
    assert count_statements(asked) == 1 + 3


def test_files_hold_whole_kernels_in_order():
    most = STATEMENTS_PER_FILE
    assert sizes(split_files(kernels(most // 2, most // 2, 1))) == [[most // 2, most // 2], [1]]
    assert sizes(split_files(kernels(5 * most, 1, 2))) == [[5 * most], [1, 2]]
    assert split_files([]) == []


def test_no_file_is_much_longer_than_the_others():
    """But for one whose only kernel is."""
    with ingot.compile(load("light_squeezenet")) as library:
        files = split_files(list(library.model.kernels.values()))
    totals = [sum(k.statements for k in file) for file in files]
    assert len(files) > 1
    for file, total in zip(files, totals):
        assert len(file) == 1 or total <= min(STATEMENTS_PER_FILE, 2.5 * np.mean(totals))


def test_a_kernel_says_which_rules_did_not_fit():
    """Another rule schedules the kernel instead, and may make it slow."""
    func = CASES["two_outputs_at_once"]()
    machine = Options.check(threads="none").machine
    made = scheduled(func, Decision(func, machine).schedule(machine), (0, ()))
    assert "refused to rule row_reduction: compute_at: argument 'block'" in print_kernel(
        lower_prim_func(made), "kernel").comment
