"""relax.testing.transform: what DataflowUseInplaceCalls finds of dataflow blocks, for scripts that look at it."""
from ....ir.relax.block_builder import BlockBuilder
from ....ir.transform.classic.inplace_calls import Aliases, inplace_call, live_ranges, opportunities


def dataflow_liveness_analysis(block):
    """{variable: (binding that defines it, the last that uses it)}."""
    return live_ranges(block)


def dataflow_alias_analysis(block, inputs):
    """({variable: places that it may be}, {place of a tuple: [places of each item]})."""
    found = Aliases(block, inputs)
    return found.sets, found.tuples


def dataflow_inplace_analysis(block, inputs, mod):
    """The calls whose results have room in an argument, and those whose shape it has: [(binding, {arguments})] each."""
    return opportunities(block, inputs)


def dataflow_single_inplace_call(mod, call, inplace_indices):
    """(R.call_tir_inplace in the place of a call, the module with its PrimFunc)."""
    builder = BlockBuilder(mod)
    made = inplace_call(builder, call, tuple(inplace_indices))
    return made, builder.get()
