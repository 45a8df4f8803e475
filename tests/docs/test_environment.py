"""Environment variables stand on one page, and each of it is read somewhere."""

import re

OURS = re.compile(r"\bTVM_IREE_EXT_[A-Z_]+\b")
READ = re.compile(r"""environ(?:\.get\(|\.setdefault\(|\[)\s*["']([A-Z_]+)["']""")
# Set for a library of others, or read by one that a table of peers is made with.
OTHERS = {"MPLBACKEND", "PATH"}


def named(files):
    found = set()
    for path in files:
        text = path.read_text("utf-8")
        found |= {*OURS.findall(text), *READ.findall(text)}
    return found


def test_every_variable_stands_on_the_page(root, sources):
    page = (root / "docs" / "environment.md").read_text("utf-8")
    scripts = [path for path in (root / "scripts").iterdir() if path.is_file()]
    code = [path for name, path in sources.items() if name.endswith(".py")]
    peers = [path for name, path in sources.items() if "/bench/" in name or "/on_gpu/" in name]
    read = named(path for path in [*code, *scripts] if path not in peers)
    assert {"TVM_IREE_EXT_CACHE", "TVM_IREE_EXT_RECORDS", "TVM_LIBRARY_PATH", "CC"} <= read
    assert {name for name in read - OTHERS if name not in page} == set()


def test_the_page_has_no_variable_that_nobody_reads(root, sources):
    page = (root / "docs" / "environment.md").read_text("utf-8")
    text = "".join(path.read_text("utf-8") for path in sources.values() if path.suffix == ".py")
    text += "".join(
        path.read_text("utf-8") for path in (root / "scripts").iterdir() if path.is_file()
    )
    listed = set(re.findall(r"`([A-Z][A-Z_]+)`", page)) - {"COLUMNS", "PATH"}  # of Python's own
    assert {name for name in listed if name not in text} == set()
