"""Who may import whom: the table of docs/design.md, kept true."""

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tvm_iree_ext

PACKAGE = "tvm_iree_ext"

# Module -> what it may import: the package's own modules with a dot, and installed packages.
# The longest prefix counts; a row holds for the modules below it, and they may import one another.
# Every row may import the standard library; all but these four may import these four.
ANYONE = ".errors .dtypes .signature .reading"
# What a deployment loads: it has the TVM runtime (tvm_ffi), and no tvm.
DEPLOYED = (
    ".kernel .gpu_function .program .control .calls .manifest .artifact .cache .arrays .machine"
    " .runtime .staging .torch_arrays .complex_arrays .interrupts .device.launcher"
)
REGISTRY = (
    ".layout .expression .reference .target .intrin .ops .vector .schedules .catalog .registry"
)
RECORDS = ".record .record_files .tuned"
COMPILE = (
    ".passes .call_guard .math_calls .vector_math .streams .prefetches .pipeline .linker .device"
    " .versions"
)
BUILD = f"{REGISTRY} {COMPILE} {DEPLOYED} {RECORDS} .builder"
PASSES = ".program_passes .program_extents .program_lowering .program_device"
PROGRAMS = ".mlir .mlir.form .mlir.reader .program_builder .program"
VERIFY = ".comparison .examples .checked .guards .guarded_calls .verify"
ALLOWED = {
    "errors": "",
    "dtypes": ".errors numpy ml_dtypes",
    "signature": ".errors .dtypes",
    "reading": "",
    "expression": "",
    "purity": "tvm",
    "versions": "",
    "lazy": "",
    "example_programs": ".vector .target tvm",
    "layout": "numpy",
    "reference": ".expression numpy ml_dtypes",
    "target": ".layout .machine tvm numpy",
    "intrin": ".layout .target tvm tvm_ffi numpy",
    "ops": ".layout .expression .purity .interrupts tvm tvm_ffi numpy ml_dtypes",
    "vector": ".layout .ops tvm tvm_ffi numpy",
    "schedules": ".ops .vector .target .intrin .layout .purity .call_guard .vector_math .streams"
    " .prefetches tvm tvm_ffi numpy",
    "catalog": ".tolerance .layout .ops .reference .expression numpy ml_dtypes",
    "registry": ".catalog .ops .reference .schedules numpy",
    "support": f"{REGISTRY} .machine .gpu_function tvm numpy",
    "math_calls": ".purity tvm tvm_ffi",
    "vector_math": ".math_calls tvm",
    "narrow_storage": ".purity numpy tvm tvm_ffi",
    "storage_reuse": ".intrin .purity tvm tvm_ffi",
    "vectorization": "tvm tvm_ffi",
    "flattening": "tvm tvm_ffi",
    "zero_words": "tvm tvm_ffi",
    "call_guard": ".signature tvm",
    "streams": "tvm tvm_ffi",
    "prefetches": ".target tvm tvm_ffi",
    "passes": "",
    "pipeline": ".call_guard .vector_math .vectorization .flattening .narrow_storage .storage_reuse"
    " .streams .prefetches .passes .zero_words tvm tvm_ffi",
    "checked": ".staging .passes .prefetches .linker .builder .ops .target .simt tvm tvm_ffi numpy",
    "linker": ".interrupts .target .machine .staging .versions tvm tvm_ffi",
    "staging": "",
    "machine": "",
    "runtime": "tvm_ffi",
    "arrays": ".torch_arrays numpy ml_dtypes tvm_ffi",
    "torch_arrays": "",
    "interrupts": "tvm_ffi",
    "complex_arrays": ".arrays .torch_arrays numpy",
    "manifest": "",
    "artifact": ".manifest .staging",
    "calls": ".arrays numpy",
    "cache": ".artifact .staging",
    "device": ".interrupts .passes .flattening .narrow_storage .storage_reuse .math_calls"
    " .vector_math .purity .target .layout .zero_words .intrin .linker .artifact .manifest"
    " .device.launcher .staging tvm tvm_ffi cuda",
    "device.launcher": "numpy",
    "gpu_function": ".arrays .torch_arrays .manifest .device.launcher numpy",
    "kernel": ".interrupts .arrays .calls .gpu_function .manifest .artifact .cache .machine"
    " .staging .runtime numpy tvm_ffi",
    "control": ".arrays numpy tvm_ffi",
    "program": ".control .gpu_function .kernel .arrays .complex_arrays .calls .manifest .artifact"
    " .runtime numpy tvm_ffi",
    "program_passes": "tvm tvm_ffi numpy",
    "program_extents": ".program_passes tvm tvm_ffi",
    "program_relax": ".mlir .program_passes .program_relax_ops .program_relax_scans"
    " .program_relax_sorts tvm tvm_ffi",
    "program_relax_ops": ".mlir .ops tvm",
    "program_relax_scans": ".program_relax_ops .ops tvm",
    "program_relax_sorts": ".program_relax_ops .ops tvm",
    "building": f"{PROGRAMS} .program_relax .builder .ops .schedules .target .tuned .kernel tvm",
    "program_contractions": ".ops .mlir .schedules tvm tvm_ffi",
    "program_sorts": ".ops .mlir tvm tvm_ffi",
    "program_lowering": ".program .program_passes .program_extents .program_contractions"
    " .program_sorts .manifest .mlir .ops .schedules .tuned tvm tvm_ffi numpy",
    "program_plan": ".program_passes .device .manifest tvm",
    "program_device": ".program .program_lowering .program_passes .program_plan .artifact .manifest"
    " .device .target tvm",
    "program_builder": f"{BUILD} {PASSES} .mlir tvm tvm_ffi numpy",
    # Starting checks needs no TVM: only the processes that do them.
    "program_checks": ".mlir .mlir.form .mlir.reader .program_trials .lean .workers .limits"
    " .staging .target",
    "program_trials": f"{PROGRAMS} .guarded_programs .checked .simulated_program .comparison"
    " .tolerance .recorded .target numpy",
    "lean": "tvm",
    "frontends": f"{PROGRAMS} .mlir.compiler .staging .torch_export .target jax torch iree",
    "torch_export": ".torch_decompositions .mlir .mlir.form torch iree",
    "torch_decompositions": ".torch_complex .torch_masks .torch_orders .torch_transforms torch",
    "torch_complex": "torch",
    "torch_masks": "torch",
    "torch_orders": "torch",
    "torch_transforms": "torch",
    "fuzz": f"{PROGRAMS} .workers .limits",
    # Drawing programs, and saying what they mean, takes NumPy alone.
    "random_programs": ".tolerance .random_programs.campaign numpy",
    "random_programs.campaign": ".random_programs .random_programs.trial .random_programs.doors"
    " .staging .workers .limits .lean",
    "random_programs.reproduction": ".random_programs .random_programs.doors",
    "random_programs.trial": f"{PROGRAMS} .checked .guarded_programs .staging .random_programs"
    " .random_programs.doors .random_programs.reproduction .simulated_program .recorded numpy",
    "random_programs.doors": f"{PROGRAMS} .random_programs .frontends .program_relax tvm numpy"
    " ml_dtypes jax torch",
    # Reading what was tuned is below building; writing it is tuning's.
    "record": ".manifest",
    "record_files": ".record",
    "tuned": ".record .record_files .ops .schedules .target tvm",
    "builder": f"{BUILD} tvm tvm_ffi numpy",
    "comparison": ".tolerance numpy",
    "tolerance": "",
    "recorded": ".comparison .tolerance numpy ml_dtypes",
    "examples": f"{REGISTRY} .comparison numpy ml_dtypes",
    "workers": ".staging",
    "guards": "numpy",
    "guarded_programs": ".guards .passes .artifact .arrays .runtime .program tvm tvm_ffi numpy",
    "guarded_calls": ".guards .artifact .kernel .runtime numpy",
    "limits": "",
    "verify": f"{BUILD} {VERIFY} .simulated .workers tvm tvm_ffi numpy ml_dtypes",
    "doctor": ".versions .cache .machine .runtime .target .linker .device tvm",
    "bench": f"{BUILD} {VERIFY} tvm tvm_ffi numpy ml_dtypes torch threadpoolctl iree"
    " jax onnx onnxruntime scipy pyfftw matplotlib",
    "gpu_cases": ".ops .schedules .target tvm",
    "gpu_sweep_cases": ".ops",
    "gpu_sweep": f"{REGISTRY} .bench .device .gpu_sweep_cases .gpu_table .inspected .verify"
    " .workers numpy",
    "gpu_table": ".gpu_cases .device .target",
    "inspected": f"{REGISTRY} .device .simulated .tuned tvm",
    "simulated": f"{REGISTRY} .simt .device .simulated_plan tvm numpy",
    "simulated_program": ".program_device .program_lowering .simulated_plan .simt .device"
    " .device.launcher .mlir .target .tuned numpy",
    "simulated_plan": ".simt .device .device.launcher tvm tvm_ffi numpy",
    "simt": ".target .layout tvm tvm_ffi numpy ml_dtypes",
    "mlir": f"{REGISTRY} .lazy .workers .mlir.form .mlir.reader tvm tvm_ffi numpy ml_dtypes iree",
    "mlir.form": "numpy",
    # Reading needs no TVM: the process that parses starts without it.
    "mlir.wire": ".mlir.form numpy ml_dtypes",
    "mlir.reader": ".mlir.form .mlir.wire",
    "mlir.native": "iree",
    "mlir.compiler": ".limits .mlir.reader iree",
    "mlir.translate": ".mlir.form .mlir.native numpy ml_dtypes iree",
    "mlir.reader_process": ".limits .mlir.form .mlir.wire .mlir.translate iree",
    "tuning": f"{BUILD} {VERIFY} .lazy .lean .workers .limits .inspected .bench .simt .mlir"
    " .program_lowering .tolerance tvm tvm_ffi numpy xgboost matplotlib rich",
}
# The command and the scripts are users: they take what the package exports, and errors.
USER = "cli"
USER_MAY = {"numpy", "ml_dtypes", "rich", "torch", "tomli", "tomllib"}

IMPORTERS = ("import_module", "__import__", "importorskip")


def imports(path: Path, module: str, modules: set[str]) -> Iterator[tuple[int, str]]:
    """Line and full name of all that a file imports, in functions too: ``tvm_iree_ext.tir``.

    Where a name is imported from a module, it is the module's own; a submodule's name is its own.
    """
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
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
    return {
        name: path for name, path in names.items() if name != PACKAGE and name.split(".")[0] != USER
    }


def test_every_module_has_a_row(modules):
    assert [name for name in inner(modules) if row_of(name) is None] == []


def test_imports_follow_the_table(modules):
    wrong = [
        f"{path}:{line}: {name} imports {imported}"
        for name, path in inner(modules).items()
        for line, imported in imports(path, f"{PACKAGE}.{name}", set(modules))
        if (row := row_of(name)) and not may_import(row, imported)
    ]
    assert not wrong, "\n".join(wrong)


def test_users_import_public_names_only(modules, root):
    public = set(getattr(tvm_iree_ext, "__all__", ())) | {"errors"}
    users = {name: path for name, path in modules.items() if name.startswith(f"{PACKAGE}.{USER}")}
    users |= {path.stem: path for path in (root / "scripts").glob("*.py")}
    wrong = []
    for module, path in users.items():
        for line, name in imports(path, module, set(modules)):
            top, _, inside = name.partition(".")
            inside = inside.split(".")[0]
            if top in sys.stdlib_module_names | USER_MAY or name == PACKAGE:
                continue
            if top == PACKAGE and (inside in public or (module in modules and inside == USER)):
                continue
            wrong.append(f"{path}:{line}: imports {name}")
    assert not wrong, "\n".join(wrong)


def test_a_deployment_needs_no_tvm():
    assert [row for row in DEPLOYED.split() if needs_tvm(row[1:])] == []


def test_no_module_goes_by_a_mapped_folders_name(modules, root, pyproject):
    """``import schedules`` from the root would make a second copy of every module."""
    mapping = pyproject["tool"]["setuptools"]["package-dir"]
    folders = {folder for package, folder in mapping.items() if package != folder}
    assert folders == {"schedules", "tuning"}
    files = [*modules.values(), *(root / "scripts").rglob("*.py"), *(root / "tests").rglob("*.py")]
    wrong = [
        f"{path}:{line}: imports {name}"
        for path in files
        for line, name in imports(path, "", set(modules))
        if name.split(".")[0] in folders
    ]
    assert not wrong, "\n".join(wrong)


def test_the_table_refuses_what_it_should():
    """The table is only as good as its reading."""
    assert may_import("layout", "numpy.typing")
    assert may_import("layout", "tvm_iree_ext.layout.nested")
    assert may_import("schedules", "tvm_iree_ext.ops.attention")
    assert not may_import("layout", "tvm.tirx")
    assert not may_import("ops", "tvm_iree_ext.targets")
    assert not may_import("ops", "tvm_iree_ext.schedules.cpu.attention.attention_rule")
    assert not may_import("reference", "tvm_iree_ext.ops.base.maps")
    assert not may_import("errors", "tvm_iree_ext.base.signature")
    assert not may_import("kernel", "tvm_iree_ext.building.kernel_build")
    assert not may_import("ops", "tvm_iree_ext")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import tvm.tirx", "tvm.tirx"),
        ("from tvm_iree_ext.ops import maps", "tvm_iree_ext.ops.base.maps"),
        ("from tvm_iree_ext.ops import attention_of", "tvm_iree_ext.ops"),
        ("from tvm_iree_ext import build", "tvm_iree_ext.build"),
        ("from . import maps", "tvm_iree_ext.ops.base.maps"),
        ("from .maps import parse", "tvm_iree_ext.ops.base.maps"),
        ("from ..target import cpu", "tvm_iree_ext.targets"),
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
    names = [name for _, name in imports(path, "tvm_iree_ext.ops.attention", modules)]
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
    """tests/ops tests tvm_iree_ext/ops, tests/schedules tests schedules."""
    tests = (root / "tests").rglob("test_*.py")
    folders = {path.parent.relative_to(root / "tests").as_posix() for path in tests}
    mirrored = {name.removeprefix(f"{PACKAGE}.").replace(".", "/") for name in modules}
    assert folders - mirrored - {".", "docs", "scripts"} == set()
