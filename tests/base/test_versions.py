import importlib.metadata

import pytest
from packaging.requirements import Requirement

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.base.versions import PAIR, check_pair

GOOD = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post1"}


@pytest.fixture
def installed(monkeypatch):
    """What importlib.metadata says is installed, for a test to change."""
    versions = dict(GOOD)

    def version(name):
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    return versions


def test_the_installed_pair_passes():
    check_pair()


def test_the_pair_is_that_of_pyproject(pyproject):
    requirements = map(Requirement, pyproject["project"]["dependencies"])
    pinned = {r.name: r.specifier for r in requirements if r.name in PAIR}
    assert pinned == {name: Requirement(name + clauses).specifier for name, clauses in PAIR.items()}


@pytest.mark.parametrize("package", PAIR)
@pytest.mark.parametrize(
    "version",
    [
        *("0.1.13.post3", "0.1.14", "0.1.14.post0", "0.1.14.post1", "0.1.15", "0.1.15.post2"),
        *("0.26.0", "0.27.0", "0.27.0.post1", "0.27.0.post1+cu13", "0.28.0"),
    ],
)
def test_accepts_what_pip_accepts(installed, package, version):
    installed[package] = version
    if Requirement(package + PAIR[package]).specifier.contains(version):
        check_pair()
    else:
        with pytest.raises(BuildError, match=f"^{package} is "):
            check_pair()


def test_says_what_came_and_what_to_install(installed):
    installed["apache-tvm-ffi"] = "0.1.15.post2"
    with pytest.raises(BuildError) as error:
        check_pair()
    assert str(error.value) == (
        "apache-tvm-ffi is 0.1.15.post2; expected >=0.1.14.post0,<0.1.15"
        " (pip install 'apache-tvm==0.27.0.post1' 'apache-tvm-ffi>=0.1.14.post0,<0.1.15')"
    )


def test_says_what_is_missing(installed):
    del installed["apache-tvm"]
    with pytest.raises(BuildError, match=r"^apache-tvm is not installed; expected ==0\.27"):
        check_pair()
