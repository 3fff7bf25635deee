"""tvm.script.parser.core.doc: the nodes of syntax trees, which are Python's."""
from ast import *  # noqa: F401, F403
from ast import parse  # noqa: F401
