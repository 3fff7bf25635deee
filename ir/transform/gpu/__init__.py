"""Passes over the loops of GPU kernels: loops bound to threads and blocks, barriers, shared memory."""
