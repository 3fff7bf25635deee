"""Its presence puts tests/ on the import path, so that every test finds helpers such as `interp`."""
