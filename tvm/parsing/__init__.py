"""tvm.script.parser.core: sources, their syntax trees, and the values of expressions in them."""
