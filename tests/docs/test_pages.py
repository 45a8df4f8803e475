"""The snippets of each page run, and show what they print."""

import doctest

import pytest

from tvm_iree_ext.runtime import cache

# Pages whose snippets another test runs, with what they need.
ELSEWHERE = {
    "deploy.md": "tests/runtime/test_deploy.py",
    "jax.md": "tests/frontends/test_jax_and_torch.py",
    "pytorch.md": "tests/frontends/test_jax_and_torch.py",
}


def pages(root):
    return [path for path in sorted((root / "docs").rglob("*.md")) if path.name not in ELSEWHERE]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def test_every_snippet_runs(root):
    attempted = {}
    for page in pages(root):
        result = doctest.testfile(str(page), module_relative=False)
        assert result.failed == 0, page
        attempted[page.name] = result.attempted
    assert attempted["attention.md"] > 10


def test_what_is_run_elsewhere_is_there(root):
    for name, test in ELSEWHERE.items():
        assert (root / "docs" / name).exists()
        assert name in (root / test).read_text("utf-8")
