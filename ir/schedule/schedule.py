"""Schedule: a program, and primitives that rewrite it one legal step at a time. Names follow tvm.tir.Schedule."""
from __future__ import annotations

from copy import copy

from ..node import collect
from ..tir.function import PrimFunc
from ..tir.stmt import Block, BlockRealize, LetStmt
from ..tir.verifier import verify
from . import primitives  # noqa: F401  (fills the table)
from .context import Context
from .errors import RENDER_LEVELS, HandleError, ScheduleError
from .handles import RV, BlockRV, DerivedRV, ExprRV, LoopRV, Mark, handles_in
from .index import Index, with_names
from .random_engine import RandomEngine
from .registry import PRIMITIVES, method_of
from .state import ScheduleState, StmtSRef, parse_mask, parse_module
from .trace import Trace

class Schedule:
    """A working copy of a module or PrimFunc under transformation.

    mod: an IRModule or a PrimFunc (then the module's function "main"). seed: of `rng`, for steps that sample.
    debug_mask: whether to verify the function after every primitive: "all", "none", or TVM's bits (0 is none).
    error_render_level: how a ScheduleError prints, "detail" (with the program), "fast" (one line) or "none".
    enable_check: must be True, since no primitive goes unchecked.

    The methods that schedule come from the table of primitives; each one checks that it is legal, or raises
    ScheduleError and changes nothing.
    """

    def __init__(self, mod, *, seed=None, debug_mask="none", error_render_level="detail", enable_check=True):
        if not enable_check:
            raise ValueError("enable_check is False: a primitive is always checked; leave it out")
        mod = parse_module(mod)
        for name, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                _require_no_views(name, func)
                named = with_names(func)
                mod = mod if named is func else mod.with_function(name, named)
        mask = parse_mask(debug_mask)
        if error_render_level not in RENDER_LEVELS:
            raise ValueError(f"error_render_level is {error_render_level!r}; known: {', '.join(RENDER_LEVELS)}")
        self._mod, self._trace = mod, Trace()
        self.debug_mask, self.error_render_level = mask, error_render_level
        self.rng = RandomEngine(seed)
        self.plan = None  # the Plan that a rule scheduled it by
        self.refused = ()  # of rules that were tried before, and to threads: "rule: why not"
        self._state = None  # made when asked for
        self._indices = {}  # function name -> Index of the current function
        self._symbols = {}  # handle -> (function name, block name or loop Var)
        names = [n for n, f in mod.functions.items() if isinstance(f, PrimFunc)]
        self._working = "main" if "main" in names else names[0] if len(names) == 1 else None

    # ------------------------------------------------------------ the program

    @property
    def mod(self):
        """The module as it is now. Only primitives change it."""
        return self._mod

    @property
    def trace(self):
        """The Trace of what was applied."""
        return self._trace

    @property
    def func(self):
        """The working function."""
        return self._index(self._working).func

    @property
    def func_working_on(self):
        """The name of the working function; None when the module has no PrimFunc, or several and none is "main"."""
        return self._working

    @property
    def state(self):
        """The ScheduleState: what is known of the blocks and loops as they are now."""
        if self._state is None:
            self._state = ScheduleState(self._mod, debug_mask=self.debug_mask, read_only=True)
        elif self._state.mod is not self._mod:
            self._state.follow(self._mod)
        return self._state

    def work_on(self, func_name):
        """Make `func_name` the function in which get_block looks by default."""
        self._index(func_name)
        self._working = func_name

    def get(self, rand_var_or_sref):
        """The Block or For that a handle or a StmtSRef stands for now; the int of a sampled number, or of arithmetic on
        such."""
        rv = rand_var_or_sref
        if isinstance(rv, StmtSRef):
            return rv.stmt
        if isinstance(rv, ExprRV):
            return self.value(rv)
        found = self._statement_of(rv)
        return found.block if isinstance(rv, BlockRV) else found

    def get_sref(self, rand_var_or_stmt):
        """The StmtSRef of a block or loop, given as its handle or name, or as the statement itself."""
        found = rand_var_or_stmt
        if isinstance(found, str):
            found = self._context("get_sref", self._working).block_called(found)
        return self.state.get_sref(self._statement_of(found) if isinstance(found, RV) else found)

    def remove_rv(self, rand_var):
        """Forget a handle; using it afterwards is an error."""
        self._place(rand_var)
        del self._symbols[rand_var]

    def copy(self):
        """An independent schedule in the same state; handles work on both. It samples from a seed of its own."""
        other = copy(self)
        other.rng, other._trace, other._state = RandomEngine(self.fork_seed()), self._trace.copy(), None
        other._indices, other._symbols = dict(self._indices), dict(self._symbols)
        return other

    def seed(self, seed):
        """Start the random numbers of sampling anew."""
        self.rng.seed(seed)

    def fork_seed(self):
        """A seed for another schedule, drawn from this one's random numbers."""
        return self.rng.fork()

    def can_decompose_padding(self, block, loop):
        """Whether decompose_padding(block, loop) would be legal."""
        state = self.rng.state  # which a copy draws from
        other = self.copy()
        self.rng.state = state
        try:
            other.decompose_padding(block, loop)
        except ScheduleError:
            return False
        return True

    def show(self, style=None, black_format=None, **options):
        """Print the program, with the options of its own `show`, and the trace, coloured on a terminal."""
        self._mod.show(style, black_format, **options)
        print("\n# trace")
        self._trace.show(style)

    def apply(self, name, args):
        """Apply the primitive `name` with {argument: value}: what a trace replays."""
        if name not in PRIMITIVES:
            raise ScheduleError(name, "", "there is no such primitive", f"known: {', '.join(PRIMITIVES)}")
        return PRIMITIVES[name].apply(self, args)

    # ------------------------------------------------------------ for the registry

    def context(self, primitive, args):
        """The Context for one application: of the function that its handles are in."""
        handles = [h for value in args.values() for h in handles_in(value) if not isinstance(h, ExprRV)]
        names = list(dict.fromkeys(self._place(h)[0] for h in handles))
        if len(names) > 1:
            raise ScheduleError(primitive, "", f"the handles are of different functions: {', '.join(names)}")
        name = names[0] if names else args.get("func_name") or self._working
        if name is None and "func_name" not in args:  # of a step that looks at no function
            name = next((n for n, f in self._mod.functions.items() if isinstance(f, PrimFunc)), None)
        return self._context(primitive, name)

    def _context(self, primitive, func_name):
        return Context(self, primitive, func_name, self._index(func_name))

    def value(self, rv):
        """The value of a handle: a number, the name of a block, a loop's Var or a Mark."""
        if isinstance(rv, DerivedRV):
            try:
                return rv.value(self.value)
            except ZeroDivisionError:
                raise ScheduleError("get", "", "a sampled number is divided by zero") from None
            except TypeError:
                raise ScheduleError("get", "", "a factor that split is to infer is no number yet") from None
        return self._place(rv)[1]

    def _statement_of(self, rv):
        return self.statement(rv, self._context("get", self._place(rv)[0]))

    def statement(self, rv, ctx):
        """The BlockRealize or For of a handle; refuses when it is gone."""
        _, key = self._place(rv)
        if isinstance(key, Mark):
            ctx.refuse("", f"the handle stands for no loop but the {key.value}", "only compute_at and "
                       "reverse_compute_at take it")
        table, what = (ctx.index.blocks, "block") if isinstance(rv, BlockRV) else (ctx.index.loops, "loop")
        if key not in table:
            name = key if isinstance(key, str) else key.name
            ctx.refuse("", f"the handle is of {what} {name}, which an earlier primitive has removed",
                       f"get the {what} again with get_{what}{'' if what == 'block' else 's'}")
        return table[key]

    def commit(self, func_name, result, handles, inst, decision):
        """Take over a primitive's result."""
        if result.func is not self._indices[func_name].func:
            if self.debug_mask:
                verify(result.func)
            self._mod = self._mod.with_function(func_name, result.func)
            self._indices[func_name] = Index(result.func)
        if result.renamed:
            for rv, (where, key) in self._symbols.items():
                if where == func_name and isinstance(key, str):
                    self._symbols[rv] = where, result.renamed.get(key, key)
        for handle, key in zip(handles, result.outputs):
            self._symbols[handle] = func_name, key
        self._trace.append(inst, decision)

    def _place(self, rv):
        if rv not in self._symbols:
            raise HandleError("get", "", "the handle is of another schedule, or was removed")
        return self._symbols[rv]

    def _index(self, func_name):
        if func_name not in self._indices:
            func = self._mod.functions.get(func_name)
            if not isinstance(func, PrimFunc):
                found = [n for n, f in self._mod.functions.items() if isinstance(f, PrimFunc)]
                if func_name is None and found:
                    raise ScheduleError("work_on", "", "the schedule does not know which function to be working on",
                                        f"call work_on with one of {', '.join(found)}, or give func_name")
                raise ScheduleError("work_on", "'func_name'", f"{func_name!r} is no PrimFunc of the module",
                                    f"it has {', '.join(found) or 'none'}")
            self._indices[func_name] = Index(verify(func))
        return self._indices[func_name]


def _require_no_views(name, func):
    """Raise ValueError where two buffers of a function share memory, since what is proved, is proved of each alone;
    constants, which nothing writes, may be read by several, where nothing can move out of their scope."""
    views = func.views()
    lets = {id(let.var): let for let in collect(func.body, LetStmt) if let.constant is not None} if views else {}
    found = [b.name for pointer, buffers in views.items() if pointer not in lets for b in buffers]
    if found:
        raise ValueError(f"function {name} has buffers over the memory of others ({', '.join(found)}): run "
                         "tir.transform.ResolveViews() first")
    inside = {id(let) for block in collect(func.body, Block) if not collect(block.body, Block)
              for let in collect(block.body, LetStmt)} if lets else set()
    top = func.body.block.body if isinstance(func.body, BlockRealize) else func.body
    while isinstance(top, LetStmt):
        inside.add(id(top))
        top = top.body
    moved = [let.var.name for pointer, let in lets.items() if pointer in views and id(let) not in inside]
    if moved:
        raise ValueError(f"function {name} has constants around some of its blocks ({', '.join(moved)}), which others could "
                         "not read: put T.allocate_const at the top of the function")


for _primitive in PRIMITIVES.values():
    setattr(Schedule, _primitive.name, method_of(_primitive))

__all__ = ["BlockRV", "ExprRV", "LoopRV", "Schedule", "ScheduleError"]
