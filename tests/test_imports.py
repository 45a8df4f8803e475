"""Who may import whom: the table of docs/design.md, kept true."""

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import tvm_iree_ext

PACKAGE = "tvm_iree_ext"

# Folder -> what it may import: the package's own folders with a dot, and installed packages.
# The longest prefix counts; a row holds for the modules below it, and they may import one another.
# Every row may import the standard library, and all may import what all speak.
ANYONE = ".base"
# What a deployment loads: it has the TVM runtime (tvm_ffi), and no tvm.
DEPLOYED = "runtime"
TVM = "tvm tvm_ffi numpy"
SPEAK = ".layout .tir .ops"  # what an op is
SCHEDULED = f"{SPEAK} .vector .targets .intrin .codegen .schedules"
BUILD = f"{SCHEDULED} .runtime .records .building"
PROGRAMS = f"{BUILD} .mlir .mlir.reading .programs"
CHECK = (
    ".catalog .registry .processes .access_checks .simulator .simulator.runs .emulator"
    " .emulator.runs .verify"
)
ALLOWED = {
    "base": "numpy ml_dtypes tvm_ffi",
    "layout": "numpy",
    "reference": "numpy ml_dtypes",
    "runtime": "numpy ml_dtypes tvm_ffi torch jax jax_tvm_ffi",
    "processes": "",
    "tir": "tvm tvm_ffi numpy ml_dtypes",
    "targets": ".layout .runtime tvm numpy",
    "intrin": ".layout .targets tvm",
    "ops": f".layout .tir {TVM} ml_dtypes",
    "vector": f".tir .ops .targets {TVM}",
    "codegen": f".layout .tir .targets .intrin .runtime {TVM} cuda",
    "schedules.base": "",
    "schedules.emit": ".tir .ops .codegen tvm",
    "schedules.shared": f".tir .ops .codegen .schedules.base .schedules.emit {TVM}",
    "schedules.cpu": f"{SPEAK} .vector .targets .codegen"
    f" .schedules.base .schedules.emit .schedules.shared {TVM}",
    "schedules.gpu": f"{SPEAK} .targets .intrin .codegen"
    f" .schedules.base .schedules.emit .schedules.shared {TVM}",
    "schedules": f".ops .tir .schedules.base .schedules.cpu .schedules.gpu {TVM}",
    "catalog": ".layout .ops .reference .targets numpy ml_dtypes",
    "registry": ".catalog",
    "records": ".ops .targets .runtime .schedules .schedules.base tvm",
    "building": ".ops .targets .codegen .runtime .records .schedules .schedules.base tvm",
    # Reading needs no TVM: the process that parses starts without it.
    "mlir.reading": ".processes numpy ml_dtypes iree",
    "mlir": f".tir .ops .mlir.reading {TVM} ml_dtypes",
    "programs": f".ops .targets .tir .codegen .runtime .records .building .mlir"
    f" .schedules .schedules.shared {TVM}",
    "frontends": ".targets .runtime .processes .mlir .mlir.reading .programs numpy jax torch iree"
    " onnx google tvm",
    "api": ".ops .targets .runtime .records .building .mlir .programs .schedules.base tvm",
    "support": ".runtime .catalog .registry .emulator.runs",
    "doctor": ".targets .codegen .runtime tvm",
    "simulator": f".targets .tir .simulator {TVM} ml_dtypes",
    "simulator.runs": f"{BUILD} .schedules.base .mlir .programs .simulator {TVM}",
    # Code comes as an artifact has it: the emulator knows neither schedules nor TVM.
    "emulator": ".runtime numpy ml_dtypes tinygrad",
    "emulator.runs": f"{BUILD} .schedules.base .programs .simulator.runs .emulator numpy",
    "access_checks": f".ops .targets .codegen .runtime .building .simulator {TVM}",
    "verify": f"{BUILD} .schedules.base {CHECK} {TVM} ml_dtypes",
    # Starting checks needs no TVM: only the processes that do them.
    "program_checks": f"{PROGRAMS} {CHECK} tvm numpy ml_dtypes",
    # Drawing programs, and saying what they mean, takes NumPy alone.
    "random_programs.drawing": "numpy",
    "random_programs.doors": f"{PROGRAMS} .frontends .random_programs.drawing numpy tvm jax torch",
    "random_programs": f"{PROGRAMS} {CHECK} .program_checks"
    " .random_programs.drawing .random_programs.doors numpy",
    "accuracy": f"{PROGRAMS} tvm numpy ml_dtypes mpmath matplotlib torch jax",
    "conformance": ".processes .frontends numpy ml_dtypes onnx jax torch",
    "bench": f"{BUILD} .schedules.cpu .schedules.emit .catalog .registry .processes .frontends"
    f" {TVM} ml_dtypes torch threadpoolctl onnxscript iree jax onnx onnxruntime scipy pyfftw"
    " matplotlib transformers torchvision timm diffusers",
    # Runs where there is a driver and NumPy; PyTorch's kernels are peers.
    "on_gpu": ".runtime numpy torch",
    "gpu_day": f"{PROGRAMS} {CHECK} .program_checks .on_gpu .bench .frontends numpy ml_dtypes"
    " torch",
    "inspection": f"{BUILD} .schedules.base .schedules.gpu {CHECK} .bench tvm numpy",
    "tuning": f"{PROGRAMS} .schedules.base {CHECK} .inspection .on_gpu {TVM}"
    " xgboost matplotlib rich",
}
# The command and the scripts are users: they take what the package exports, and errors.
USER = "cli"
USER_MAY = {
    "numpy",
    "ml_dtypes",
    "mpmath",
    "rich",
    "shtab",
    "torch",
    "tomli",
    "tomllib",
    "griffe",
    "matplotlib",
    "mkdocs",
}

IMPORTERS = ("import_module", "__import__", "importorskip")


@cache
def nodes(path: Path) -> list[ast.AST]:
    """What may import or makes a class, of a file that several tests read."""
    kinds = ast.Import | ast.ImportFrom | ast.Call | ast.ClassDef
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]


def imports(path: Path, module: str, modules: set[str]) -> Iterator[tuple[int, str]]:
    """Line and full name of all that a file imports, in functions too: ``tvm_iree_ext.tir``.

    Where a name is imported from a module, it is the module's own; a submodule's name is its own.
    """
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in nodes(path):
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom():
                base = node.module or ""
                if node.level:
                    base = importlib.util.resolve_name("." * node.level + base, package)
                inside = [f"{base}.{alias.name}" for alias in node.names]
                names = (n if n in modules or base == PACKAGE else base for n in inside)
                yield from ((node.lineno, name) for name in dict.fromkeys(names))
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]):
                if ast.unparse(func).split(".")[-1] in IMPORTERS:
                    yield node.lineno, name


def row_of(module: str) -> str | None:
    """The row of ALLOWED for a module named without the package: ``layout.svg`` -> ``layout``."""
    parts = module.split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in ALLOWED), None)


def may_import(row: str, name: str) -> bool:
    top, _, inside = name.partition(".")
    if top in sys.stdlib_module_names:
        return True
    allowed = ALLOWED[row].split()
    if top != PACKAGE:
        return top in allowed
    if f".{row}" not in ANYONE.split():
        allowed += ANYONE.split()
    return row_of(inside) in [row, *(name[1:] for name in allowed if name.startswith("."))]


def needs_tvm(row: str) -> bool:
    """Whether modules of ``row`` may import tvm, or may import what may."""
    reached, waiting = set(), [row]
    while waiting:
        reached.add(row := waiting.pop())
        names = ALLOWED[row].split()
        waiting += [name[1:] for name in names if name[0] == "." and name[1:] not in reached]
    return any("tvm" in ALLOWED[row].split() for row in reached)


def inner(modules: dict[str, Path]) -> dict[str, Path]:
    """The modules but the users, by their names in the package."""
    names = {name.removeprefix(f"{PACKAGE}."): path for name, path in modules.items()}
    users = (PACKAGE, USER, "__main__")
    return {name: path for name, path in names.items() if name.split(".")[0] not in users}


def test_every_module_has_a_row(modules):
    assert [name for name in inner(modules) if row_of(name) is None] == []


@pytest.fixture(scope="module")
def imported(modules) -> dict[str, list[tuple[int, str]]]:
    """Module -> line and full name of all that it imports."""
    return {name: list(imports(path, name, set(modules))) for name, path in modules.items()}


def test_imports_follow_the_table(modules, imported):
    wrong = [
        f"{path}:{line}: {name} imports {other}"
        for name, path in inner(modules).items()
        for line, other in imported[f"{PACKAGE}.{name}"]
        if (row := row_of(name)) and not may_import(row, other)
        # A package's __init__ may offer all that the package holds.
        if not (path.name == "__init__.py" and other.startswith(f"{PACKAGE}.{name}."))
    ]
    assert not wrong, "\n".join(wrong)


def test_users_import_public_names_only(modules, root):
    public = {*tvm_iree_ext.__all__, "base"}
    users = {
        name: path
        for name, path in modules.items()
        if name.startswith((f"{PACKAGE}.{USER}", f"{PACKAGE}.__main__"))
    }
    scripts = {path.stem: path for path in (root / "scripts").glob("*.py")}
    users |= scripts
    wrong = []
    for module, path in users.items():
        for line, name in imports(path, module, set(modules)):
            top, _, inside = name.partition(".")
            inside = inside.split(".")[0]
            if top in sys.stdlib_module_names | USER_MAY | set(scripts) or name == PACKAGE:
                continue
            if top == PACKAGE and (inside in public or (module in modules and inside == USER)):
                continue
            wrong.append(f"{path}:{line}: imports {name}")
    assert not wrong, "\n".join(wrong)


def test_a_deployment_needs_no_tvm():
    assert not needs_tvm(DEPLOYED)
    inside = [name for name in ALLOWED[DEPLOYED].split() if name.startswith(".")]
    assert inside == [], "a deployment imports runtime and what all speak, and nothing else of ours"


def test_no_module_goes_by_a_mapped_folders_name(modules, root, pyproject):
    """``import schedules`` from the root would make a second copy of every module."""
    mapping = pyproject["tool"]["setuptools"]["package-dir"]
    folders = {folder for package, folder in mapping.items() if package != folder}
    assert folders == {"schedules", "tuning"}
    files = [*modules.values(), *(root / "scripts").rglob("*.py"), *(root / "tests").rglob("*.py")]
    named = re.compile(rf"(?<![.\w])({'|'.join(folders)})\b")  # what else is not worth a look
    wrong = [
        f"{path}:{line}: imports {name}"
        for path in files
        if named.search(path.read_text())
        for line, name in imports(path, "", set(modules))
        if name.split(".")[0] in folders
    ]
    assert not wrong, "\n".join(wrong)


def test_the_table_refuses_what_it_should():
    """The table is only as good as its reading."""
    assert may_import("layout", "numpy.typing")
    assert may_import("layout", "tvm_iree_ext.layout.nested")
    assert may_import("schedules.cpu", "tvm_iree_ext.ops.families.attention.attention")
    assert not may_import("layout", "tvm.tirx")
    assert not may_import("ops", "tvm_iree_ext.targets")
    assert not may_import("ops", "tvm_iree_ext.schedules.cpu.attention.attention_rule")
    assert not may_import("schedules.cpu", "tvm_iree_ext.schedules.gpu.sort.sort_rule")
    assert not may_import("reference", "tvm_iree_ext.ops.base.maps")
    assert not may_import("runtime", "tvm_iree_ext.building.kernel_build")
    assert not may_import("ops", "tvm_iree_ext")


def circles(edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The groups of nodes of which each can be reached from each other."""
    graph: dict[str, set[str]] = {}
    for start, end in edges:
        graph.setdefault(start, set()).add(end)
        graph.setdefault(end, set())

    def reached(start: str) -> frozenset[str]:
        seen, waiting = set(), list(graph[start])
        while waiting:
            if (node := waiting.pop()) not in seen:
                seen.add(node)
                waiting += graph[node]
        return frozenset(seen)

    below = {node: reached(node) for node in graph}
    groups = {
        frozenset(other for other in below[node] if node in below[other])
        for node in graph
        if node in below[node]
    }
    return sorted(sorted(group) for group in groups)


@pytest.fixture(scope="module")
def edges(modules, imported) -> set[tuple[str, str]]:
    """Who imports whom among the package's modules, also for types and inside functions."""
    return {
        (name, other)
        for name, others in imported.items()
        for _, other in others
        if other in modules and other not in (name, PACKAGE)
    }


def test_what_is_imported_from_a_package_is_there(modules):
    """A package that loads on demand answers for any name, to type checkers too."""
    packages = {name for name, path in modules.items() if path.name == "__init__.py"}
    wrong = [
        f"{path}:{node.lineno}: {node.module}.{alias.name}"
        for path in modules.values()
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module in packages
        for alias in node.names
        if f"{node.module}.{alias.name}" not in modules
        and not hasattr(importlib.import_module(node.module), alias.name)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_one_another(edges):
    assert circles(edges) == []


def test_no_folders_import_one_another(edges, modules):
    """What a package's ``__init__`` offers is a floor of its own, above what the folder holds."""
    packages = {name for name, path in modules.items() if path.name == "__init__.py"}
    # emit's __init__ names what its files hold, and they are used by that name alone.
    joined = f"{PACKAGE}.schedules.emit"

    def folder(name: str) -> str:
        if name.startswith(joined):
            return joined
        return f"{name} (names)" if name in packages else name.rpartition(".")[0]

    between = {(folder(start), folder(end)) for start, end in edges}
    assert circles((start, end) for start, end in between if start != end) == []


def test_no_family_takes_what_another_family_holds(edges, modules):
    """What several families of ops use stands in none of them: ordering, products, moves."""
    ops = f"{PACKAGE}.ops.families."
    families = {name.removeprefix(ops).split(".")[0] for name in modules if name.startswith(ops)}

    def family(name: str) -> str | None:
        inside = re.match(rf"{PACKAGE}\.schedules\.[cg]pu\.(\w+?)(_rule)?(\.|$)", name)
        return inside[1] if inside and inside[1] in families else None

    between = {(family(start), family(end)) for start, end in edges}
    # A grouped product is a contraction for each group, with its config and its panels.
    composed = {("grouped_matmul", "contraction")}
    assert {(a, b) for a, b in between if a and b and a != b} == composed


def test_finds_circles():
    assert circles([("a", "b"), ("b", "c")]) == []
    assert circles([("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]) == [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import tvm.tirx", "tvm.tirx"),
        ("from tvm_iree_ext.ops.base import maps", "tvm_iree_ext.ops.base.maps"),
        ("from tvm_iree_ext.ops import attention_of", "tvm_iree_ext.ops"),
        ("from tvm_iree_ext import build", "tvm_iree_ext.build"),
        ("from . import maps", "tvm_iree_ext.ops.base.maps"),
        ("from .maps import parse", "tvm_iree_ext.ops.base.maps"),
        ("from ..padding import cpu", "tvm_iree_ext.ops.padding"),
        ("def f():\n    import tvm", "tvm"),
        ("importlib.import_module('tvm')", "tvm"),
        ("__import__('tvm')", "tvm"),
        ("pytest.importorskip('torch')", "torch"),
    ],
)
def test_reads_every_kind_of_import(tmp_path, source, found):
    path = tmp_path / "attention.py"
    path.write_text(source)
    modules = {"tvm_iree_ext.ops", "tvm_iree_ext.ops.base.maps"}
    names = [name for _, name in imports(path, "tvm_iree_ext.ops.base.op", modules)]
    assert names == [found]


def fresh(code: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_loads_nothing_heavy():
    """Not tvm_ffi either: it imports torch where there is one."""
    loaded = fresh("import sys, tvm_iree_ext; print(*sys.modules)").split()
    heavy = {"tvm", "tvm_ffi", "xgboost", "torch", "iree", "matplotlib", "scipy", "pandas"}
    assert heavy & {name.split(".")[0] for name in loaded} == set()


def test_what_needs_no_tvm_imports_without_it(modules):
    """As in a deployment, which has the runtime alone."""
    names = [f"{PACKAGE}.{name}" for name in inner(modules) if not needs_tvm(row_of(name))]
    fresh(f"import sys; sys.modules['tvm'] = None\nimport {', '.join(names)}")


def test_tests_mirror_the_tree(modules, root):
    """tests/ops/base tests tvm_iree_ext/ops/base, tests/schedules/cpu tests schedules/cpu."""
    tests = (root / "tests").rglob("test_*.py")
    tested = {path.parent.relative_to(root / "tests").as_posix() for path in tests}
    files = {path for path in modules.values() if path.name != "__init__.py"}
    folders = {path.parent.relative_to(root).as_posix() for path in files}
    package = {folder.removeprefix(f"{PACKAGE}/") for folder in folders - {PACKAGE}}
    assert tested - package - {".", "docs", "scripts"} == set()
    assert package - tested == set()


def test_a_public_class_name_stands_for_one_class(modules):
    """A reader who searches for a name meets one class."""
    places: dict[str, list[str]] = {}
    for path in modules.values():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
