"""The operators of Relax that are ops of the registry."""

from tvm_iree_ext.programs.relax_import.relax_arg_compares import ArgCompares
from tvm_iree_ext.programs.relax_import.relax_attention import Attentions
from tvm_iree_ext.programs.relax_import.relax_convolutions import Convolutions
from tvm_iree_ext.programs.relax_import.relax_gathers import Gathers
from tvm_iree_ext.programs.relax_import.relax_ops import Lower, OpCalls
from tvm_iree_ext.programs.relax_import.relax_scans import Scans
from tvm_iree_ext.programs.relax_import.relax_scatters import Scatters
from tvm_iree_ext.programs.relax_import.relax_sorts import Sorts
from tvm_iree_ext.programs.relax_import.relax_transposed_convolutions import TransposedConvolutions

_FAMILIES = (
    Sorts,
    Scans,
    ArgCompares,
    Scatters,
    Gathers,
    Attentions,
    Convolutions,
    TransposedConvolutions,
)


def lowered_families(calls: OpCalls) -> dict[str, Lower]:
    """How each operator is lowered, by its name, to ``calls`` of ops."""
    return {name: how for one in _FAMILIES for name, how in one(calls).lowered().items()}
