"""An instrument of a virtual machine that runs each kernel in another library, too, and compares."""
from __future__ import annotations

import numpy as np

from ....runtime.ndarray import NDArray, array


class LibCompareVMInstrument:
    """vm.set_instrument(LibCompareVMInstrument(library, device)): what `library` has of the same names must give what the
    machine's kernels give, within rtol and atol. verbose: print what is compared and what is not there."""

    def __init__(self, mod, device, verbose=True, rtol=1e-5, atol=1e-5):
        self.mod, self.device, self.verbose, self.rtol, self.atol = mod, device, verbose, rtol, atol
        self.counter = 0

    def skip_instrument(self, func, name, before_run, ret_val, *args):
        """Whether a call is not compared; subclasses say more."""
        return False

    def compare(self, name, ref_args, new_args, ret_indices):
        """Call the library's function with new_args, and compare those of ret_indices with the machine's. Raises
        AssertionError, which names the function."""
        self._say(f"[{self.counter}] {name} is compared")
        self.mod.get_function(name, query_imports=True)(*new_args)
        for k in ret_indices:
            np.testing.assert_allclose(new_args[k].numpy(), ref_args[k].numpy(), rtol=self.rtol, atol=self.atol,
                                       err_msg=f"argument {k} of {name}")
        self.counter += 1

    def __call__(self, func, name, before_run, ret_val, *args):
        if before_run or name.startswith("vm.builtin.") or not all(isinstance(a, NDArray) for a in args) or not args:
            return
        try:
            self.mod.get_function(name, query_imports=True)
        except AttributeError:
            self._say(f"{name} is not in the library")
            return
        if not self.skip_instrument(func, name, before_run, ret_val, *args):
            inputs = [array(a.numpy(), self.device) for a in args[:-1]]
            result = array(np.zeros_like(args[-1].numpy()), self.device)
            self.compare(name, args, [*inputs, result], (len(args) - 1,))

    def _say(self, text):
        if self.verbose:
            print(text)


__all__ = ["LibCompareVMInstrument"]
