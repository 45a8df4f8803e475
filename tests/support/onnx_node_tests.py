"""ONNX's own tests of some operators: making the data of all takes ten seconds."""

import importlib
import warnings


def loaded(*modules):
    """Name -> test, of modules of ``onnx.backend.test.case.node``."""
    from onnx.backend.test.case import node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in modules:
            importlib.import_module(f"{node.__name__}.{name}")
    return {case.name: case for case in node._NodeTestCases}
