"""tvm.contrib.graph_executor: the interface of the first tutorials, over what relax.build and tvm.compile make."""
from __future__ import annotations

from ...runtime.device import cpu
from ...runtime.ndarray import array
from ...runtime.params import load_param_dict
from ..relax.vm import VirtualMachine


def create(graph_json_str, libmod, device):
    """The GraphModule of an Executable; the graph is the executable's own, whatever graph_json_str says."""
    return GraphModule(VirtualMachine(libmod, device))


class GraphModule:
    """Function main of a module, its inputs set by name, its outputs read by number.

    module: an Executable, a CompiledLibrary, or a VirtualMachine.
    """

    def __init__(self, module):
        self.vm = module if isinstance(module, VirtualMachine) else VirtualMachine(module, cpu())
        self._names = self.vm.executable.parameters.get("main")
        if self._names is None:
            raise ValueError("a graph executor runs function main, which the module does not have")
        self._inputs, self._outputs = {}, None

    def set_input(self, key=None, value=None, **params):
        """Set an input by its name or number, and any by keyword. KeyError for a name there is none of."""
        given = params if key is None else {key: value, **params}
        for name, data in given.items():
            name = self._names[name] if isinstance(name, int) else name
            if name not in self._names:
                raise KeyError(f"there is no input {name!r}; there is {', '.join(self._names)}")
            self._inputs[name] = data if hasattr(data, "copyfrom") else array(data)

    def load_params(self, params_bytes):
        """Set the inputs that save_param_dict wrote; what is no input is left out."""
        self.set_input(**{n: v for n, v in load_param_dict(params_bytes).items() if n in self._names})

    def run(self, **input_dict):
        """Run on the inputs that were set. Raises ValueError naming those that are missing."""
        self.set_input(**input_dict)
        missing = [n for n in self._names if n not in self._inputs]
        if missing:
            raise ValueError(f"no value was set for {', '.join(missing)}")
        outputs = self.vm["main"](*(self._inputs[n] for n in self._names))
        self._outputs = outputs if isinstance(outputs, list) else [outputs]

    set_input_zero_copy = set_input  # an NDArray that is set is never copied

    def get_input_info(self):
        """({input: its shape}, {input: its dtype})"""
        infos = dict(zip(self._names, self.vm.executable.infos["main"][0]))
        return ({n: tuple(getattr(d, "value", d) for d in i.shape) for n, i in infos.items()},
                {n: str(i.dtype) for n, i in infos.items()})

    @property
    def module(self):
        """What runs; itself."""
        return self

    def get_num_outputs(self):
        self._require()
        return len(self._outputs)

    def get_num_inputs(self):
        return len(self._names)

    def get_output(self, index, out=None):
        """An output of the last run; copied to `out` where that is given."""
        self._require()
        return self._outputs[index] if out is None else self._outputs[index].copyto(out)

    def get_input(self, index, out=None):
        """An input that was set, by its name or number."""
        value = self._inputs[self._names[index] if isinstance(index, int) else index]
        return value if out is None else value.copyto(out)

    def get_input_index(self, name):
        """The number of an input; -1 when there is none."""
        return self._names.index(name) if name in self._names else -1

    def _require(self):
        if self._outputs is None:
            raise ValueError("there are no outputs yet: call run() first")

    def benchmark(self, device, func_name="run", repeat=5, number=5, min_repeat_ms=None, limit_zero_time_iterations=100,
                  end_to_end=False, cooldown_interval_ms=0, repeats_to_cooldown=1, **kwargs):
        """The BenchmarkResult of runs on the inputs that were set and `kwargs`."""
        self.run(**kwargs)
        args = [self._inputs[n] for n in self._names]
        return self.vm.time_evaluator("main", device, number, repeat, min_repeat_ms or 0, cooldown_interval_ms,
                                      repeats_to_cooldown)(*args)

    def __getitem__(self, key):
        """The method of that name."""
        return getattr(self, key)
