"""Kernels where TVM is not installed, from C++, and for other processors; and docs/deploy.md."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

from tvm_iree_ext.base.errors import ArtifactError
from tvm_iree_ext.runtime.artifact import LIBRARY
from tvm_iree_ext.runtime.cache import VARIABLE
from tvm_iree_ext.runtime.kernel import export, load
from tvm_iree_ext.runtime.machine import library_machine, this_machine
from tvm_iree_ext.runtime.tvm_runtime import RUNTIME_LIBRARY, find_runtime

ARM = {"mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1"}


@pytest.fixture(scope="session")
def site(root, tmp_path_factory) -> Path:
    """A site-packages with the wheel of the runtime and what it asks for: no tvm, no compiler."""
    place = tmp_path_factory.mktemp("wheel")
    run([sys.executable, str(root / "scripts" / "runtime_wheel.py"), "--out", str(place)], place)
    (wheel,) = place.iterdir()
    site = tmp_path_factory.mktemp("site")
    offline = ("--no-index", "--no-deps", "--target", str(site))
    run([sys.executable, "-m", "pip", "install", *offline, str(wheel)], site)
    (installed_wheel,) = importlib.metadata.distributions(path=[str(site)])
    needed = {Requirement(text).name for text in installed_wheel.requires or ()}
    assert needed == {"apache-tvm-ffi", "numpy", "ml_dtypes"}
    for name in ("numpy", "ml_dtypes", "tvm_ffi", "typing_extensions"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        installed = origin.parent if origin.name == "__init__.py" else origin
        (site / installed.name).symlink_to(installed)
    ffi = importlib.metadata.distribution("apache-tvm-ffi")
    (record,) = {
        Path(str(ffi.locate_file(file))).parent
        for file in ffi.files or ()
        if file.name == "METADATA"
    }
    (site / record.name).symlink_to(record)
    return site


@pytest.fixture
def deployed(site, tmp_path):
    """``deployed(code, *arguments, **environment)``: runs where there is nothing but ``site``."""

    def run(code: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess:
        begin = f"import sys; sys.path.append({str(site)!r})\n"
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", begin + code, *map(str, arguments)],
            env={"PATH": "", **environment},
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            timeout=120,
        )

    return run


CALL = """
try:
    import tvm
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("there is a tvm")
import numpy as np
from tvm_iree_ext.base.errors import ArtifactError
from tvm_iree_ext.runtime.kernel import load
try:
    kernel = load(sys.argv[1])
except ArtifactError as error:
    raise SystemExit(str(error))
x = np.arange(4000, dtype="float32").reshape(1000, 4)
print(kernel(x)[:3] if kernel.op == "toy.row_sums" else kernel(x, 2.0)[1])
"""


def test_a_parallel_kernel_runs_with_the_runtime_alone(artifacts, deployed, tmp_path):
    done = deployed(CALL, export(artifacts.row_sums, tmp_path / "kernel", runtime=True))
    assert (done.stdout, done.stderr) == ("[ 6. 22. 38.]\n", "")


def test_a_serial_kernel_needs_no_runtime(artifacts, deployed):
    done = deployed(CALL, artifacts.scale)
    assert (done.stdout, done.stderr) == ("[ 8. 10. 12. 14.]\n", "")


def test_the_runtime_may_lie_elsewhere(artifacts, deployed, tmp_path):
    shutil.copy(find_runtime(), tmp_path)
    done = deployed(CALL, artifacts.row_sums, TVM_LIBRARY_PATH=str(tmp_path))
    assert (done.stdout, done.stderr) == ("[ 6. 22. 38.]\n", "")


def test_a_missing_runtime_is_an_error_that_says_what_to_do(artifacts, deployed):
    done = deployed(CALL, artifacts.row_sums)
    assert done.returncode == 1
    assert done.stderr == (
        f"{RUNTIME_LIBRARY} not found in {artifacts.row_sums}: this kernel needs the TVM runtime;"
        " install apache-tvm, put the library beside the artifact (export with runtime=True), or"
        " name its folder in TVM_LIBRARY_PATH\n"
    )


# The command, where nothing is built

COMMAND = """
from tvm_iree_ext.cli.main import main
raise SystemExit(main(sys.argv[1:]))
"""


def test_the_command_says_what_is_here_runs_and_times(artifacts, deployed, tmp_path):
    doctor = deployed(COMMAND, "doctor")
    assert (doctor.returncode, doctor.stderr) == (0, "")
    assert "tvm-iree-ext-runtime" in doctor.stdout
    assert doctor.stdout.endswith("all that is needed is here\n")
    folder = export(artifacts.row_sums, tmp_path / "kernel", runtime=True)
    inputs = tmp_path / "inputs.npz"
    rows = np.arange(4000, dtype="float32").reshape(1000, 4)
    np.savez(inputs, in0=rows, out0=rows.sum(1))
    ran = deployed(COMMAND, "run", folder, "--inputs", inputs, "--check")
    assert (ran.stdout, ran.stderr) == ("out0: float32[1000]\nall results are as recorded\n", "")
    timed = deployed(COMMAND, "bench", folder, "--inputs", inputs, "--quick", "--threads", 1)
    assert timed.stderr == ""
    assert re.fullmatch(r".*: 16 KB of arguments\nthreads 1: \S+ [mu]s a call, .*\n", timed.stdout)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("build", "attention"), "build is no part of tvm-iree-ext-runtime; it comes with"),
        (("bench", "attention"), "bench: attention is no artifact's folder; suites come with"),
        (("run", "model.mlir"), "tvm_iree_ext.build_program is no part of tvm-iree-ext-runtime"),
    ],
)
def test_what_is_not_here_is_named_with_where_it_is(deployed, words, message):
    done = deployed(COMMAND, *words)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith(f"tvm-iree-ext: {message}")


def test_help_lists_what_is_here(deployed):
    listed = re.findall(r"^    (\w+) ", deployed(COMMAND, "--help").stdout, re.MULTILINE)
    assert listed == ["doctor", "run", "profile", "bench"]


# Another processor

cross = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None
    and not any(map(shutil.which, ("aarch64-linux-gnu-gcc", "ld.lld"))),
    reason="needs a linker for aarch64: pip install ziglang",
)


@pytest.fixture(scope="session")
def for_arm(build, tmp_path_factory) -> Path:
    """The artifact of ``row_sums`` for an Arm server."""
    return build("row_sums", tmp_path_factory.mktemp("arm") / "row_sums", **ARM)


@cross
def test_cross_building_gives_a_library_for_that_processor(for_arm):
    assert library_machine((for_arm / LIBRARY).read_bytes()) == "aarch64"
    kernel = load(for_arm, lazy=True)
    assert kernel.target["mcpu"] == "neoverse-n1"
    assert kernel.resources["cpu_features"] == ["neon", "fullfp16", "dotprod"]


@cross
@pytest.mark.skipif(this_machine() == "aarch64", reason="this is such a machine")
def test_a_cross_built_kernel_is_exported_and_not_run(for_arm, tmp_path):
    message = rf"kernel.so: built for aarch64-linux-gnu; this machine is {this_machine()}"
    with pytest.raises(ArtifactError, match=message):
        load(export(for_arm, tmp_path / "exported"))
    with pytest.raises(ArtifactError, match=r"the kernel is for aarch64 and .* export without the"):
        export(for_arm, tmp_path / "bundle", runtime=True)
    assert not (tmp_path / "bundle").exists()


# docs/deploy.md


@pytest.fixture(scope="module")
def page(root) -> dict[str, str]:
    """The snippets of the page, by the file name in their first line."""
    text = (root / "docs" / "deploy.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w+\n((?:#|//) (\w+\.\w+).*?)^```$", text, re.MULTILINE | re.DOTALL)
    snippets = {name: code for code, name in blocks}
    on_gpu = {"gpu.py", "multiply.cpp", "multiply.sh"}  # run by tests/runtime/launch/test_launch.py
    run_here = {"attend.cpp", "compile.sh", "cross.py", "export.py", "load.py"}
    assert snippets.keys() == run_here | on_gpu
    return {name: snippets[name] for name in run_here}


@pytest.fixture(scope="module")
def workplace(page, tmp_path_factory) -> Path:
    """A folder with the page's files, where ``export.py`` has run."""
    folder = tmp_path_factory.mktemp("page")
    for name, code in page.items():
        (folder / name).write_text(code)
    run([sys.executable, "export.py"], folder)
    return folder


def run(command: list[str], folder: Path) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, VARIABLE: str(folder / "cache")}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_loads_what_it_exports(workplace, page, deployed):
    done = deployed(f"import os; os.chdir({str(workplace)!r})\n" + page["load.py"])
    assert done.stderr == ""
    assert done.stdout.startswith("largest difference")


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_the_program_of_the_page_compiles_and_is_right(workplace, page):
    assert re.fullmatch(r"largest difference \S+\n", run(["bash", "-e", "compile.sh"], workplace))
    moved = workplace / "moved"  # elsewhere, and with nothing but the folder
    moved.mkdir()
    shutil.copy(workplace / "attend", moved)
    shutil.copytree(workplace / "attention", moved / "attention")
    shutil.move(workplace / "attention", workplace / "gone")
    try:
        subprocess.run(["./attend"], cwd=moved, env={"PATH": ""}, check=True, timeout=300)
    finally:
        shutil.move(workplace / "gone", workplace / "attention")


@cross
def test_the_page_builds_for_another_processor(workplace):
    run([sys.executable, "cross.py"], workplace)
    library = workplace / "attention-aarch64" / LIBRARY
    assert library_machine(library.read_bytes()) == "aarch64"
