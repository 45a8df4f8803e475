"""What MkDocs does beside its plug-ins: the sources of the API, pages at the top of the clone.

The API reference is read from the package as it is installed, without the folders that hold nothing
public: they are three fifths of all lines, and would take half of the site's time.

``CONTRIBUTING.md``, ``CHANGELOG.md`` and ``SECURITY.md`` stand where code hosts look for them.  In
the site they are pages like others; a link holds in both places.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from source_tree import lay_out

PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
_TOP = Path(__file__).resolve().parent.parent
_NOTHING_PUBLIC = (
    *("access_checks", "building", "catalog", "cli", "codegen", "intrin", "on_gpu", "processes"),
    *("random_programs", "reference", "schedules/cpu", "schedules/gpu", "schedules/shared"),
)
_ABOVE = re.compile(rf"\]\((?:\.\./)+({'|'.join(map(re.escape, PAGES))})")
_INTO_DOCS = re.compile(r"\]\(docs/")


def on_startup(**_: object) -> None:
    """Lay out the sources of the API reference, before its plug-in looks for them."""
    sources = _TOP / "build" / "api_sources"  # as in mkdocs.yml
    lay_out(_TOP, sources)
    for folder in _NOTHING_PUBLIC:
        (sources / "tvm_iree_ext" / folder).unlink()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from the top of the clone."""
    for name in PAGES:
        files.append(File.generated(config, name, abs_src_path=str(_TOP / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links between the top of the clone and ``docs`` to the pages of the site."""
    if page.file.src_uri in PAGES:
        return _INTO_DOCS.sub("](", markdown)
    up = "../" * page.file.src_uri.count("/")
    return _ABOVE.sub(rf"]({up}\1", markdown)
