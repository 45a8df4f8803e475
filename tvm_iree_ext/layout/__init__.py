"""NestedLayout: its algebra, conversions between layouts, pictures.  Pure Python and NumPy."""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.layout.attribute import parse_layout
    from tvm_iree_ext.layout.conversion import Conversion, Movement, analyse_conversion
    from tvm_iree_ext.layout.distribute import coordinates, to_simd, to_simt
    from tvm_iree_ext.layout.nested import Digits, NestedLayout
    from tvm_iree_ext.layout.ownership import owner_map, owners, replication
    from tvm_iree_ext.layout.pictures.layout_report import fewest_hardware, report_data, report_text
    from tvm_iree_ext.layout.pictures.picture_svg import save_svg, svg_picture
    from tvm_iree_ext.layout.pictures.picture_text import text_picture
    from tvm_iree_ext.layout.reshaping import reshape
    from tvm_iree_ext.layout.transform import apply, broadcast, permute, project, recombine

__all__ = [
    "Conversion",
    "Digits",
    "Movement",
    "NestedLayout",
    "analyse_conversion",
    "apply",
    "broadcast",
    "coordinates",
    "fewest_hardware",
    "owner_map",
    "owners",
    "parse_layout",
    "permute",
    "project",
    "recombine",
    "replication",
    "report_data",
    "report_text",
    "reshape",
    "save_svg",
    "svg_picture",
    "text_picture",
    "to_simd",
    "to_simt",
]

_MODULES = {
    "attribute": ("parse_layout",),
    "conversion": ("Conversion", "Movement", "analyse_conversion"),
    "distribute": ("coordinates", "to_simd", "to_simt"),
    "nested": ("Digits", "NestedLayout"),
    "ownership": ("owner_map", "owners", "replication"),
    "pictures.layout_report": ("fewest_hardware", "report_data", "report_text"),
    "pictures.picture_svg": ("save_svg", "svg_picture"),
    "pictures.picture_text": ("text_picture",),
    "reshaping": ("reshape",),
    "transform": ("apply", "broadcast", "permute", "project", "recombine"),
}

__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
