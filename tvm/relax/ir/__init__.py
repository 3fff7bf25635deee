"""tvm.relax.ir: instruments of passes over graphs."""
