"""A layout read: who holds what of a matrix instruction's accumulator, as text and as a picture.

python read_layout.py [INSTRUCTION [PICTURE.svg]]
"""

import sys

from tvm_iree_ext.layout import analyse_conversion, save_svg, text_picture
from tvm_iree_ext.targets import mma_kind


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "MFMA_F32_16x16x16_F16"
    kind = mma_kind(name)
    layout = kind.acc.layout()
    lanes = kind.subgroup_size
    print(layout)
    print(f"a lane holds {layout.distributed_unpacked_shape} of {layout.undistributed_shape}")
    print(text_picture(layout, 1, lanes, color=sys.stdout.isatty()))
    for place, operand in [("left", kind.lhs), ("right", kind.rhs)]:
        if operand.layout().undistributed_shape != layout.undistributed_shape:
            continue
        conversion = analyse_conversion(
            layout, operand.layout(), num_subgroups=1, subgroup_size=lanes
        )
        print(f"as the {place} operand: {conversion.movement.value}; {conversion.reason}")
    if len(sys.argv) > 2:
        save_svg(sys.argv[2], layout)


if __name__ == "__main__":
    main()
