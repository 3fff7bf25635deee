"""relax.transform: the passes over graph functions by their field names, and what makes passes of functions."""
from ....codegen import cblas  # noqa: F401 - a row of GENERATORS
from ....codegen.external import GENERATORS, attach, run_codegen
from ....ir.transform.classic import GRAPHS
from ....ir.transform.classic.ipc_memory import CUSTOM, rewrite_all_reduce
from ....ir.transform.context import (DataflowBlockPass, FunctionPass, PassContext, PassInfo, Sequential,  # noqa: F401
                                      dataflowblock_pass, function_pass, module_pass)
from ....ir.transform.fuse_by_pattern import FusionPattern, PatternCheckContext  # noqa: F401
from ....ir.transform.pass_table import RELAX
from ....runtime.registry import get_global_func
from ...absent import absence

globals().update(RELAX)
globals().update(GRAPHS)
__all__ = [*RELAX, *GRAPHS, "AttachExternModules", "DataflowBlockPass", "FunctionPass", "FusionPattern",
           "IPCAllReduceRewrite", "PassContext", "PassInfo", "PatternCheckContext", "RunCodegen", "Sequential",
           "dataflowblock_pass", "function_pass", "module_pass"]


def RunCodegen(target_options=None, entry_functions=None):
    """The pass that has external generators write the C of functions with the attribute Codegen, kept in the module's
    attribute external_mods: a folder carries it, and the network calls it. A generator is a row of
    codegen/external.py, or tvm.register_func("relax.ext.NAME"): f(functions, options, names of constants) gives a list
    of C texts or Externals, one for each function.

    target_options: {generator: its options}. entry_functions: what else of the module stays, as DeadCodeElimination has
    it; None: everything.
    """
    def run(mod, context):
        mod = run_codegen(mod, target_options, _generator)
        return RELAX["DeadCodeElimination"](entry_functions)(mod) if entry_functions else mod
    return module_pass(run, opt_level=0, name="RunCodegen")


def AttachExternModules(extern_modules):
    """The pass that keeps the C of nn.SourceModules in the module's attribute external_mods, as RunCodegen does with
    what generators write. Raises ValueError for what is no SourceModule, and for symbols that are no names in C."""
    return module_pass(lambda mod, context: attach(mod, extern_modules), opt_level=0, name="AttachExternModules")


def IPCAllReduceRewrite(allreduce_strategy):
    """The pass that has sums over processes made in memory that these share, where the runtime has a function for that
    ("runtime.disco.cuda_ipc.custom_allreduce", registered); else it leaves the module as it is. allreduce_strategy: 1,
    one shot, or 2, two shots."""
    def run(mod, context):
        there = get_global_func(CUSTOM, allow_missing=True) is not None
        return rewrite_all_reduce(mod, allreduce_strategy) if there else mod
    return module_pass(run, opt_level=0, name="IPCAllReduceRewrite")


def _generator(name):
    """The generator of a name, or None."""
    registered = get_global_func(f"relax.ext.{name}", allow_missing=True)
    if registered is None:
        return GENERATORS.get(name)
    return lambda func, symbol, options: registered([func.with_attr("global_symbol", symbol)], options, {})[0]


def __getattr__(name):
    """No such pass: the error says what there is."""
    raise AttributeError(absence(f"relax.transform.{name}")
                         or f"module {__name__!r} has no attribute {name!r}; passes: {', '.join(__all__)}")
