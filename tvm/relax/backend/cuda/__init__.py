"""relax.backend.cuda: what the libraries for NVIDIA's GPUs take. The functions that are cut out have the attribute
Codegen; RunCodegen asks tvm.register_func("relax.ext.NAME") for what they become."""
from . import cublas, cudnn, cutlass  # noqa: F401
