"""Barriers in shared memory, and copies by the tensor memory unit that complete on them (sm_90).

A barrier counts, in phases: a phase ends when as many arrivals came as the barrier was made for,
and as many bytes as were expected.  Who waits names the parity of the phase: 0 for the first.

Addresses are elements of a buffer of ``shared.dyn`` memory, taken by ``address_of``: TVM sees no
access, and puts no barriers of its own between lanes that wait for one another here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.layout.nested import Ints

_SWIZZLE = {16: 0, 32: 1, 64: 2, 128: 3}  # bytes -> CUtensorMapSwizzle
_MOST_BOX = 256  # elements of a dim
_MOST_STEP = 8  # from one of them to the next
_ALIGNMENT = 16  # bytes, of rows and of the array
_L2_128 = 2  # CUtensorMapL2promotion: lines of 128 bytes
BYTES = 8  # of a barrier


def init(barrier: Any, count: int) -> None:
    """Make a barrier whose phases take ``count`` arrivals."""
    I.evaluate(T.ptx["mbarrier.init.shared::cta.b64"](barrier, count))


def fence_init() -> None:
    """Barriers that were made are there for copies, too."""
    I.evaluate(T.ptx["fence.mbarrier_init.release.cluster"]())


def arrive(barrier: Any) -> None:
    """One arrival; what the lane did before is done for those that wait."""
    I.evaluate(T.ptx["mbarrier.arrive.shared::cta.b64"](barrier))


def arrive_expecting(barrier: Any, nbytes: int) -> None:
    """One arrival, after which copies bring so many bytes."""
    I.evaluate(T.ptx["mbarrier.arrive.expect_tx.shared::cta.b64"](barrier, nbytes))


def arrive_with_copies(barrier: Any) -> None:
    """One arrival once the ``cp.async`` that the lane started have ended."""
    I.evaluate(T.ptx["cp.async.mbarrier.arrive.noinc.shared::cta.b64"](barrier))


def wait(barrier: Any, parity: Any) -> None:
    """Until the phase of a parity has ended."""
    I.evaluate(T.cuda.mbarrier_wait(barrier, parity))


def wait_for_cluster(barrier: Any, parity: Any) -> None:
    """Until the phase of a parity has ended, at which lanes of other workgroups arrive."""
    I.evaluate(T.cuda.mbarrier_wait_acquire_cluster(barrier, parity))


def meet_cluster() -> None:
    """All lanes of the cluster's workgroups wait for one another."""
    I.evaluate(T.ptx["barrier.cluster.arrive.release.aligned"]())
    I.evaluate(T.ptx["barrier.cluster.wait.acquire.aligned"]())


def address_in(word: Any, rank: int) -> Any:
    """The address that a word of shared memory has in the cluster's workgroup of a rank.

    8 more is the next word's.  What is at such an address is arrived at (:func:`arrive_in`) and
    copied for (:func:`copy_box_in`); only the workgroup's own lanes wait for it.
    """
    found = I.alloc_buffer((1,), "uint32", scope="local")
    own = T.cuda.cvta_generic_to_shared(word)
    I.evaluate(T.ptx["mapa.shared::cluster.u32"](found[0], own, tirx.const(rank, "uint32")))
    return found[0]


def arrive_in(address: Any) -> None:
    """One arrival, as :func:`arrive`, at the barrier of another workgroup of the cluster."""
    I.evaluate(T.ptx["mbarrier.arrive.release.cluster.shared::cluster.b64"](address))


def registers_of_warpgroup(count: int, *, more: bool) -> None:
    """From here on the lanes of a warpgroup have ``count`` registers each."""
    form = "inc" if more else "dec"
    I.evaluate(T.ptx[f"setmaxnreg.{form}.sync.aligned.u32"](count))


@dataclass(frozen=True)
class TensorMapDescriptor:
    """Description of an array for the tensor memory unit (TMA), and of the boxes that it copies.

    Attributes:
        name: of the array.
        dtype: TVM's name of the elements.
        extents: of the array, row-major; all but the last may be expressions.
        box: extents of what is copied at once; beyond the array are zeros.
        swizzle_bytes: of a row of the box in shared memory: 16 (not swizzled), 32, 64 or 128.
        steps: elements of the array from one of the box to the next, by dim; none for 1 in each.
    """

    name: str
    dtype: str
    extents: tuple[Any, ...]
    box: Ints
    swizzle_bytes: int
    steps: Ints = ()

    def __post_init__(self) -> None:
        row = self.extents[-1] * self.itemsize
        if row % _ALIGNMENT:
            raise TargetError(
                f"tensor map of {self.name}: rows of {row} bytes; expected a multiple of"
                f" {_ALIGNMENT}"
            )
        if max(self.spans) > _MOST_BOX or max(self.steps, default=1) > _MOST_STEP:
            raise TargetError(
                f"tensor map of {self.name}: a box of {list(self.spans)}, by steps of"
                f" {list(self.steps) or 1}; at most {_MOST_BOX} each, by {_MOST_STEP}"
            )
        if self.swizzle_bytes > _ALIGNMENT and self.box[-1] * self.itemsize > self.swizzle_bytes:
            raise TargetError(
                f"tensor map of {self.name}: rows of {self.box[-1] * self.itemsize} bytes in a"
                f" swizzle of {self.swizzle_bytes}"
            )

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return tirx.const(0, self.dtype).ty.dtype.itemsize

    @property
    def spans(self) -> Ints:
        """Elements of the array that a box reaches over, by dim."""
        steps = self.steps or (1,) * len(self.box)
        return tuple(extent * step for extent, step in zip(self.box, steps, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of a box."""
        return prod(self.box) * self.itemsize

    def encode(self, data: Any) -> Any:
        """Emit, on the host, the descriptor of the array at ``data``; gives its variable."""
        found = tirx.Var(f"{self.name}_map", T.handle("tensormap").ty)
        I.Bind(I.tvm_stack_alloca("tensormap", 1), var=found)
        rank = len(self.extents)
        fastest = list(reversed(self.extents))
        strides = [prod(fastest[: dim + 1]) * self.itemsize for dim in range(rank - 1)]
        numbers = [tirx.const(1, "int64") * n for n in (*fastest, *strides)]
        call = I.tensormap_encode_tiled(
            found, data, *numbers, *reversed(self.spans),
            *reversed(self.steps or (1,) * rank),
            descriptor_dtype=self.dtype, rank=rank, swizzle=_SWIZZLE[self.swizzle_bytes],
            l2_promotion=_L2_128,
        )  # fmt: skip
        I.evaluate(call)
        return found


def copy_box(target: Any, tensor_map: Any, at: Sequence[Any], barrier: Any) -> None:
    """Start copying the box from ``at`` on to ``target``; its bytes count at the barrier."""
    _copy_box("", target, tensor_map, at, barrier)


def copy_box_in(target: Any, tensor_map: Any, at: Sequence[Any], barrier: Any) -> None:
    """As :func:`copy_box`; the barrier, by its address, is of one of the pair's workgroups."""
    _copy_box(".cta_group::2", target, tensor_map, at, barrier)


def _copy_box(form: str, target: Any, tensor_map: Any, at: Sequence[Any], barrier: Any) -> None:
    name = (
        f"cp.async.bulk.tensor.{len(at)}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    )
    call = T.ptx[name + form](target, T.address_of(tensor_map), *reversed(at), barrier)
    I.evaluate(call)
