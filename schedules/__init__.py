"""Schedule rules: how an op runs on a kind of target."""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.schedules.dispatch import choose

__all__ = [
    "choose",
]

_MODULES = {
    "dispatch": ("choose",),
}

__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
