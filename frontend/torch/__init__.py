"""Networks of PyTorch, TVM's relax.frontend.torch: exported programs, graphs of torch.fx, torch.compile.

    program = torch.export.export(model.eval(), (x,))
    mod = from_exported_program(program)

torch is imported where it is used. table.py says which function converts which operator: those are in ops_*.py, and
call relax.op; importer.py walks a graph; exported.py and fx_graphs.py read the two kinds of them.
"""
from .dynamo import dynamo_capture_subgraphs, relax_dynamo
from .exported import ExportedProgramImporter, from_exported_program
from .fx_graphs import TorchFXImporter, from_fx
from .importer import TorchImportError

__all__ = ["ExportedProgramImporter", "TorchFXImporter", "TorchImportError", "dynamo_capture_subgraphs",
           "from_exported_program", "from_fx", "relax_dynamo"]
