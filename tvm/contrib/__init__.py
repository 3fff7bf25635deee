"""Small aids that scripts import from tvm.contrib."""
