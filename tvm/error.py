"""tvm.error: the errors of scripts. Ingot's are Python's, or kinds of their own."""
TVMError = Exception
InternalError = Exception
