"""The one table of ops: commands, tests, docs and the tuner read it."""

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.other_names import OTHER_NAMES
from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.catalog.arg_compare import ARG_COMPARE, VECTOR_ARG_COMPARE
from tvm_iree_ext.catalog.attention import ATTENTION, ONLINE_ATTENTION
from tvm_iree_ext.catalog.base.entry import OpEntry
from tvm_iree_ext.catalog.contraction import CONTRACTION
from tvm_iree_ext.catalog.conv_2d import CONV_2D
from tvm_iree_ext.catalog.custom_op import CUSTOM_OP
from tvm_iree_ext.catalog.distribution import TO_LAYOUT, TO_SIMD, TO_SIMT
from tvm_iree_ext.catalog.element_types import ELEMENT_TYPES, ElementTypes
from tvm_iree_ext.catalog.exp_reduction import EXP_REDUCTION
from tvm_iree_ext.catalog.fft import FFT
from tvm_iree_ext.catalog.fft_transform import FFT_TRANSFORM
from tvm_iree_ext.catalog.grouped_matmul import GROUPED_MATMUL
from tvm_iree_ext.catalog.im2col import IM2COL
from tvm_iree_ext.catalog.mapped import MAP_LOAD, MAP_STORE
from tvm_iree_ext.catalog.pack import PACK, UNPACK
from tvm_iree_ext.catalog.scan import SCAN
from tvm_iree_ext.catalog.slices import GATHER, SCATTER
from tvm_iree_ext.catalog.sort import SORT
from tvm_iree_ext.catalog.topk import TOPK, TOPK_V2
from tvm_iree_ext.catalog.transfer import TRANSFER_GATHER, TRANSFER_SCATTER
from tvm_iree_ext.catalog.winograd import WINOGRAD_FILTER, WINOGRAD_INPUT, WINOGRAD_OUTPUT

ENTRIES: dict[str, OpEntry] = {
    entry.name: entry
    for entry in (
        ATTENTION,
        ONLINE_ATTENTION,
        EXP_REDUCTION,
        CUSTOM_OP,
        FFT,
        FFT_TRANSFORM,
        PACK,
        UNPACK,
        SCATTER,
        GATHER,
        SCAN,
        MAP_LOAD,
        MAP_STORE,
        SORT,
        TOPK,
        TOPK_V2,
        IM2COL,
        ARG_COMPARE,
        WINOGRAD_FILTER,
        WINOGRAD_INPUT,
        WINOGRAD_OUTPUT,
        VECTOR_ARG_COMPARE,
        TRANSFER_GATHER,
        TRANSFER_SCATTER,
        TO_LAYOUT,
        TO_SIMT,
        TO_SIMD,
        CONV_2D,
        CONTRACTION,
        GROUPED_MATMUL,
    )
}

_MEANT = {**OTHER_NAMES, "gemm": "contraction"}


def element_types(name: str) -> ElementTypes:
    """The element types that an op takes, by its name, and why it does not take others.

    Raises:
        OpError: as :func:`find`.
    """
    return ELEMENT_TYPES[find(name).name]


def find(name: str) -> OpEntry:
    """The entry of an op by its name, which may lack the dialect where only one has such an op.

    Raises:
        OpError: for a name that is not registered, or that several dialects have.
    """
    if name in ENTRIES:
        return ENTRIES[name]
    found = [full for full in ENTRIES if full.partition(".")[2] == name]
    if len(found) > 1:
        raise OpError(f"op {name!r} is of several dialects; name one of {', '.join(found)}")
    if not found:
        short = sorted({full.partition(".")[2] for full in ENTRIES})
        hint = did_you_mean(name, ENTRIES if "." in name else short, _MEANT)
        raise OpError(f"no op {name!r}{hint or '; registered are ' + ', '.join(short)}")
    return ENTRIES[found[0]]
