"""Packages of extras, without which a test is skipped and says what installs them."""

import pytest


def needs(module, extra):
    """The module; the test is skipped where it is not installed."""
    reason = f"{module} is not installed: pip install 'tvm-iree-ext[{extra}]'"
    return pytest.importorskip(module, reason=reason, exc_type=ImportError)
