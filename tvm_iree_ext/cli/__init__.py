"""The ``tvm-iree-ext`` command: parses, calls the Python API, prints."""
