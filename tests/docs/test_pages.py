"""The snippets of each page run, and show what they print."""

import doctest
from pathlib import Path

import pytest

from tvm_iree_ext.runtime import cache

# Pages whose snippets another test runs, with what they need.
ELSEWHERE = {
    "deploy.md": "tests/runtime/test_deploy.py",
    "jax.md": "tests/frontends/test_framework_pages.py",
    "pytorch.md": "tests/frontends/test_framework_pages.py",
}


DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.name not in ELSEWHERE]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(folder, tmp_path, monkeypatch):
    """One of all pages: several build the same kernels."""
    monkeypatch.setenv(cache.VARIABLE, str(folder))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_snippet_runs(page):
    result = doctest.testfile(str(page), module_relative=False)
    assert result.failed == 0
    assert result.attempted > 10 or page.name != "attention.md"


def test_what_is_run_elsewhere_is_there(root):
    for name, test in ELSEWHERE.items():
        assert (root / "docs" / name).exists()
        assert name in (root / test).read_text("utf-8")
