"""What MkDocs does beside its plug-ins: the sources of the API, pages at the top of the clone.

The API reference is read from the package as it is installed, without the folders that hold nothing
public: they are three fifths of all lines, and would take half of the site's time.

A notebook is a page, too: its texts, its code, and what its cells show, with a link to the file.

``CONTRIBUTING.md``, ``CHANGELOG.md`` and ``SECURITY.md`` stand where code hosts look for them.  In
the site they are pages like others; a link holds in both places.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
_NOTEBOOK = re.compile(r"(\]\([^)\s]*)\.ipynb\)")


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
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        name = notebook.src_uri.removesuffix(".ipynb") + ".md"
        files.append(File.generated(config, name, content=_notebook_page(notebook)))
    return files


def _notebook_page(file: File) -> str:
    """A notebook as Markdown: outputs are HTML and SVG as they stand, or text."""

    def parts() -> Iterator[str]:
        for cell in json.loads(file.content_string)["cells"]:
            source = "".join(cell["source"])
            yield f"```python\n{source}\n```" if cell["cell_type"] == "code" else source
            yield from map(_output, cell.get("outputs", ()))
        yield f"[This notebook as a file]({Path(file.src_uri).name}){{ download }}"

    return "\n\n".join(parts()) + "\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {"text/plain": output.get("text", [])})
    for kind in ("text/html", "image/svg+xml"):
        if kind in data:
            return f'<div class="output">\n{"".join(data[kind]).strip()}\n</div>'
    return f"```text\n{''.join(data['text/plain']).rstrip()}\n```"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links between the top of the clone and ``docs`` to the pages of the site."""
    if page.file.src_uri in PAGES:
        return _INTO_DOCS.sub("](", markdown)
    if not page.file.src_uri.startswith("notebooks/"):
        markdown = _NOTEBOOK.sub(r"\1.md)", markdown)
    up = "../" * page.file.src_uri.count("/")
    return _ABOVE.sub(rf"]({up}\1", markdown)
