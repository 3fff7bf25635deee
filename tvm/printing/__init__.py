"""tvm.script.printer: documents of Python's syntax, and their text."""
