"""tvm._ffi.base"""
TVMError = Exception  # as tvm.TVMError
