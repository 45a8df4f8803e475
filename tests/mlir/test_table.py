from tvm_iree_ext.mlir.table import documented, supported
from tvm_iree_ext.registry import ENTRIES


def test_the_page_lists_what_is_supported(root):
    page = (root / "docs" / "import.md").read_text("utf-8")
    assert documented() in page, "put what tvm_iree_ext.mlir.table.documented gives on the page"


def test_every_op_of_the_dialects_is_imported():
    of_iree = [name for name in ENTRIES if name.startswith("iree_")]
    moved = {"iree_linalg_ext.pack": "linalg.pack", "iree_linalg_ext.unpack": "linalg.unpack"}
    assert not {moved.get(name, name) for name in of_iree} - set(supported())
