"""``tvm_iree_ext.relax``: what users of TVM's Relax take of this package beside ``build``."""

from tvm_iree_ext.programs.relax_import.from_relax import from_relax
from tvm_iree_ext.programs.relax_import.relax_dispatch import Dispatch

__all__ = ["Dispatch", "from_relax"]
