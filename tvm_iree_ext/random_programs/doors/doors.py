"""The doors by name, and which of them are open here."""

import importlib
import importlib.util
from typing import TYPE_CHECKING

from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.base.suggestions import did_you_mean

if TYPE_CHECKING:
    from tvm_iree_ext.random_programs.doors.door import Door

NEEDS = {
    "linalg": "iree.compiler",
    "stablehlo": "iree.compiler",
    "jax": "jax",
    "torch": "iree.turbine",
    "relax": "tvm",
}
"""Each door, with the module that it asks for."""


def check_door(name: str) -> None:
    """Ask that there is a door of this name, and that it is open here.

    Raises:
        ExtError: for a name that none has, and where what it needs is not installed.
    """
    if name not in NEEDS:
        hint = did_you_mean(name, NEEDS)
        raise ExtError(f"no door {name!r}; there are {', '.join(NEEDS)}{hint}")
    try:
        is_there = importlib.util.find_spec(NEEDS[name]) is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        raise ExtError(f"door {name!r} needs {NEEDS[name]}, which is not installed")


def find_door(name: str) -> "Door":
    """The door of a name, which must be one that there is."""
    module = importlib.import_module(f"tvm_iree_ext.random_programs.doors.{name}")
    door: Door = getattr(module, name.upper())
    return door
