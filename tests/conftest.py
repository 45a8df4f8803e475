import gc
import importlib
import inspect
import linecache
import os
import resource
import signal
import sys
from pathlib import Path

import pytest
from costly_cases import part_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores Ctrl-C, and so would every process that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ADDRESS_SPACE = resource.getrlimit(resource.RLIMIT_AS)[0]

pytest.register_assert_rewrite("agreement", "relax_programs")

if os.environ.get("TVM_IREE_EXT_TEST_ALL"):
    # All packages that tests need were installed: one that cannot be imported is a failure.
    pytest.importorskip = lambda name, *_, **__: importlib.import_module(name)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-cases", action="store_true", help="also of costly tests, and long tests"
    )


@pytest.hookimpl(trylast=True)  # among those that -k and -m leave
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long tests, and most cases of each costly test, unless all are asked for."""
    if config.getoption("--all-cases"):
        return
    left_out = {item for item in items if item.get_closest_marker("long")}
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("costly") and item not in left_out:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        left_out.update(set(cases) - set(part_of(cases)))
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Keep what stays to the end from the collector of cycles, which took a second each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """A test that limits its process would fail others, which come after it there."""
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == _ADDRESS_SPACE, "memory is limited now"


def _stack(context: int = 1) -> list[inspect.FrameInfo]:
    """``inspect.stack`` with the source of the nearest four frames alone.

    TVM's decorators look at no more of it; all of a test's took a tenth of a second a function.
    """
    found = []
    frame = sys._getframe(1)
    while frame is not None:
        code, line = frame.f_code, frame.f_lineno
        near = context > 0 and len(found) < 4
        source = [linecache.getline(code.co_filename, line, frame.f_globals)] if near else None
        found.append(inspect.FrameInfo(frame, code.co_filename, line, code.co_name, source, 0))
        frame = frame.f_back
    return found


inspect.stack = _stack

# What a developer has tuned must not change what the tests build.
os.environ["TVM_IREE_EXT_RECORDS"] = os.devnull

# Of the thousands of kernels that are built here none must outlive a power cut.
os.fsync = lambda descriptor: None

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The clone."""
    return ROOT


@pytest.fixture(scope="session")
def pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="session")
def sources(pyproject) -> dict[str, Path]:
    """The package's files: where each is installed, with / between folders -> where it is here."""
    found = {}
    for package, folder in pyproject["tool"]["setuptools"]["package-dir"].items():
        for path in (ROOT / folder).rglob("*"):
            inside = path.relative_to(ROOT / folder)
            hidden = any(part.startswith((".", "__pycache__")) for part in inside.parts)
            if path.is_file() and not hidden:
                found["/".join([*package.split("."), *inside.parts])] = path
    return found


@pytest.fixture(scope="session")
def tree(sources, root, tmp_path_factory) -> Path:
    """A copy to build in: a build leaves folders that the next build would take files from."""
    tree = tmp_path_factory.mktemp("tree")
    files = [path.relative_to(root) for path in sources.values()]
    for file in [*files, "pyproject.toml", "setup.py", "README.md", "LICENSE"]:
        copy = tree / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((root / file).read_bytes())
    return tree


@pytest.fixture(scope="session")
def modules(sources) -> dict[str, Path]:
    """Module name -> file."""
    return {
        installed.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
        for installed, path in sources.items()
        if path.suffix == ".py"
    }
