"""Building: the cache, given configs, other machines, and refusals."""

import dataclasses
import json

import numpy as np
import pytest
import tvm_ffi

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ArtifactError, BuildError, ScheduleError, TargetError
from tvm_iree_ext.building import artifact_identity, kernel_build, known_builds
from tvm_iree_ext.runtime import cache, machine
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.names import make_target

SHAPE = (1, 2, 20, 16)
OP = ops.attention(SHAPE, SHAPE, SHAPE)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))


def operands():
    return [np.random.default_rng(i).standard_normal(SHAPE).astype("float32") for i in range(3)]


def test_building_twice_compiles_once(monkeypatch):
    first = ext.build(OP)

    def refuse(*_args, **_keywords):
        raise AssertionError("compiled again")

    monkeypatch.setattr(kernel_build, "compile_library", refuse)
    second = ext.build(ops.attention(SHAPE, SHAPE, SHAPE))
    assert second.folder == first.folder
    np.testing.assert_array_equal(first(*operands()), second(*operands()))


def test_another_op_config_or_version_is_another_kernel(monkeypatch):
    target = make_target("llvm")
    config = choose(OP, target).heuristic(OP, target)
    folders = {
        ext.build(OP).folder,
        ext.build(OP, config=dataclasses.replace(config, parallel=not config.parallel)).folder,
        ext.build(ops.attention(SHAPE, SHAPE, SHAPE, causal=True)).folder,
        ext.build(ops.attention(SHAPE, SHAPE, SHAPE, scale=0.3)).folder,
    }
    monkeypatch.setattr(artifact_identity, "source_fingerprint", lambda: "edited")
    monkeypatch.setattr(known_builds, "_source_files", list)
    folders.add(ext.build(OP).folder)
    assert len(folders) == 5


def test_the_manifest_tells_all_that_a_user_asks():
    kernel = ext.build(OP)
    manifest = json.loads((kernel.folder / "manifest.json").read_text())
    assert manifest["op"] == "iree_linalg_ext.attention"
    assert [operand["name"] for operand in manifest["signature"]] == [
        "query",
        "key",
        "value",
        "output",
    ]
    assert manifest["provenance"] == "heuristic"
    assert manifest["config"]["algorithm"] in ("lanes", "rows")
    assert set(manifest["versions"]) == {"tvm-iree-ext", "apache-tvm", "apache-tvm-ffi"}
    library = manifest["files"]["kernel.so"]
    assert library["bytes"] == (kernel.folder / "kernel.so").stat().st_size
    assert len(library["sha256"]) == 64
    given = ext.build(OP, config=ext.LoweringConfig.from_json(manifest["config"]))
    assert given.provenance == "given"


def test_a_kernel_for_another_machine_can_be_exported_and_not_called(tmp_path):
    kernel = ext.build(OP, target="llvm:neoverse-n1@aarch64-linux-gnu")
    kernel.export(tmp_path / "there")
    assert (tmp_path / "there" / "manifest.json").exists()
    with pytest.raises(ArtifactError, match="aarch64"):
        kernel(*operands())


def test_a_kernel_for_a_newer_cpu_can_be_exported_and_not_called(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset({"fpu"}))
    kernel = ext.build(OP, target="llvm:x86-64-v3@x86_64-linux-gnu")
    kernel.export(tmp_path / "there")
    with pytest.raises(ArtifactError, match=r"which this processor lacks|this machine is"):
        kernel(*operands())


def test_a_config_may_be_plain_json():
    config = ext.build(OP).config.to_json()
    assert ext.build(OP, config=config).provenance == "given"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"target": 3}, TargetError, "target 3: expected a name"),
        ({"target": None}, TargetError, "target None: expected a name"),
        ({"config": 3}, BuildError, "config is 3; expected a LoweringConfig or a dictionary"),
        ({"config": {"tile": 3}}, ScheduleError, "unknown field tile"),
        ({"config": {"splits": "3"}}, ScheduleError, "splits is '3'; expected a number"),
    ],
)
def test_refuses_targets_and_configs(arguments, error, message):
    with pytest.raises(error, match=message):
        ext.build(OP, **arguments)


def test_refuses_what_is_not_an_op():
    with pytest.raises(
        BuildError, match=r"expected a program, .* an op of tvm_iree_ext\.ops; str came"
    ):
        ext.build("attention")


def test_an_interrupted_build_leaves_nothing(monkeypatch):
    def interrupt(*_args, **_keywords):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kernel_build, "compile_library", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ext.build(OP)
    assert cache.size()[0] == 0
    assert ext.build(OP)(*operands()).shape == SHAPE


def test_an_op_is_lowered_without_being_built():
    target = make_target("llvm")
    config = choose(OP, target).heuristic(OP, target)
    module = ext.lower(OP, config=config)
    assert [one.name_hint for one in module.functions] == [OP.entry]
    assert tvm_ffi.structural_equal(module, ext.lower(OP, "llvm", config.to_json(), database=()))
    with pytest.raises(BuildError, match="config is 3; expected a LoweringConfig or a dictionary"):
        ext.lower(OP, config=3)
