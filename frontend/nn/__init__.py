"""Networks written as modules, TVM's relax.frontend.nn: layers with parameters, exported as an IRModule.

    class Net(nn.Module):
        def __init__(self):
            self.fc1, self.act, self.fc2 = nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)

        def forward(self, x):
            return self.fc2(self.act(self.fc1(x)))

    mod, params = Net().export_tvm({"forward": {"x": nn.spec.Tensor((1, 784), "float32")}})

tensor.py has what ops compute with, core.py the modules, op.py the operators, exporter.py the way to a graph function.
"""
from . import core, effects, exporter, extern, modules, op, spec, subroutine, tensor, visitor  # noqa: F401
from .core import Effect, Module, ModuleDict, ModuleList, Object, Parameter, Tensor  # noqa: F401
from .extern import ExternModule, ObjectModule, SourceModule, add_extern  # noqa: F401
from .modules import *  # noqa: F401,F403
from .op import *  # noqa: F401,F403
from .subroutine import SubroutineMixin  # noqa: F401
from .visitor import Mutator  # noqa: F401
