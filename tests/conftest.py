"""Its presence puts tests/ on the import path, so that every test finds helpers such as `interp`."""
import os

# Tests run beside compilers and each other: OpenMP threads that spin while they wait would take the cores from them.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
