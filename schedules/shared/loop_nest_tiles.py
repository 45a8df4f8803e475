"""The tiles of a ``custom_op``'s loop nest, as a lowering config names them: ``d0``, ``d1``."""

from tvm_iree_ext.ops.families.custom_op.custom_op import CustomOp, IteratorType
from tvm_iree_ext.schedules.base.rule import ConfigCheck


def tile_sizes(op: CustomOp, check: ConfigCheck) -> dict[int, int]:
    """The size of the tiles of each dim that a config splits.

    Raises:
        ScheduleError: for a tile of a dim that must not be split, or is not there.
    """
    sizes, config = {}, check.config
    given = (
        ("workgroup_tile", config.workgroup_tile, IteratorType.PARALLEL),
        ("reduction_tile", config.reduction_tile, IteratorType.REDUCTION),
    )
    for field, tile, kind in given:
        for name in tile:
            dims = [d for d, one in enumerate(op.iterator_types) if one is kind]
            known = [f"d{dim}" for dim in dims]
            check.need(
                name in known,
                f"{field} has {name!r}; {kind.name.lower()} dims are {', '.join(known) or 'none'}",
            )
            dim = int(name[1:])
            check.need(
                dim in op.tileable,
                f"{field} splits {name}, which the indexing map of an output"
                " omits: its tiles would each add to that output",
            )
            sizes[dim] = check.tile(field, name)
    return sizes
