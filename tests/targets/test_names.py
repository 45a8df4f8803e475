"""Targets by name."""

import json

import pytest
from tvm.target import Target

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.runtime import machine
from tvm_iree_ext.targets.cpu import cpu_features
from tvm_iree_ext.targets.gpu import subgroup_size
from tvm_iree_ext.targets.host import host, obstacle, vector_extensions
from tvm_iree_ext.targets.names import make_target, target_json


def test_llvm_is_this_machine():
    target = make_target("llvm")
    assert target.attrs["mcpu"]
    assert int(target.attrs["num-cores"]) >= 1


def test_a_name_a_dictionary_json_and_a_target_are_one():
    made = [
        make_target("llvm:znver4"),
        make_target({"kind": "llvm", "mcpu": "znver4"}),
        make_target('{"kind": "llvm", "mcpu": "znver4"}'),
        make_target(Target({"kind": "llvm", "mcpu": "znver4"})),
    ]
    assert len({json.dumps(target_json(target), sort_keys=True) for target in made}) == 1


def test_another_architecture():
    target = make_target("llvm:neoverse-n1@aarch64-linux-gnu")
    assert target.attrs["mtriple"] == "aarch64-linux-gnu"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("llvm:znver99", "LLVM knows no CPU 'znver99'; it knows znver1"),
        ("llvm:znver4@aarch64-linux-gnu", "knows no CPU 'znver4' for aarch64-linux-gnu"),
        ("vulkan", "kind is 'vulkan'; supported are llvm"),
        ("", "kind is ''; supported are llvm"),
        ('{"kind": "opencl"}', "kind 'opencl': supported are llvm"),
        ('{"kind": ', "is not JSON"),
        ({"kind": "nonesuch"}, "nonesuch"),
        (3, "target 3: expected a name, a dictionary or a target of TVM"),
        (None, "target None: expected a name"),
        ("llvm:x@foo-bar", "knows no architecture 'foo'; it knows"),
        ({"kind": "llvm", "mtriple": "foo-bar"}, "knows no architecture 'foo'; it knows"),
        ({"kind": "llvm", "mcpu": "znver99"}, "knows no CPU 'znver99'.*; it knows znver1"),
        ({"kind": "llvm", "mattr": ["+foo"]}, r"knows no feature '\+foo'; expected \+ or -"),
        ({"kind": "llvm", "mattr": ["-foo"]}, "knows no feature '-foo'"),
        ({"kind": "llvm", "mattr": ["avx2"]}, "knows no feature 'avx2'"),
        ({"kind": "llvm", "num-cores": 0}, "num-cores is 0; expected at least 1"),
        ("cuda", "target 'cuda': name a chip, such as cuda:sm_80"),
        ("cuda:sm_37", "target cuda:sm_37: chip 'sm_37' is unknown; known are sm_80, sm_86"),
        ("cuda:gfx942", "chip 'gfx942' is unknown; known are sm_80"),
        ("cuda:sm_80@wave64", "'wave64' after @; expected nothing"),
        ("rocm:gfx942@wave32x", "'wave32x' after @; expected wave32 or wave64"),
        ("rocm:gfx942@wave32", "rocm:gfx942: subgroups of 32 lanes; the chip has 64"),
        ({"kind": "rocm", "mcpu": "gfx906"}, "chip 'gfx906' is unknown; known are gfx908"),
    ],
)
def test_refuses_what_it_does_not_know(name, message):
    with pytest.raises(TargetError, match=message):
        make_target(name)


def test_a_gpu_has_its_chips_limits():
    by_name = make_target("rocm:gfx950")
    assert target_json(by_name) == target_json(make_target({"kind": "rocm", "mcpu": "gfx950"}))
    assert target_json(by_name) == target_json(make_target(by_name))
    assert int(by_name.attrs["max_shared_memory_per_block"]) == 160 * 1024
    assert int(by_name.attrs["max_num_threads"]) == 1024
    assert int(make_target("cuda:sm_86").attrs["max_shared_memory_per_block"]) == 99 * 1024


@pytest.mark.parametrize(
    ("name", "size", "features"),
    [
        ("cuda:sm_90a", 32, []),
        ("rocm:gfx90a", 64, []),
        ("rocm:gfx1100", 32, ["+wavefrontsize32"]),
        ("rocm:gfx1100@wave64", 64, ["+wavefrontsize64"]),
    ],
)
def test_subgroups_of_a_gpu(name, size, features):
    target = make_target(name)
    assert subgroup_size(target) == size
    assert list(target.attrs.get("mattr", [])) == features


def test_features_may_be_switched_on_and_off():
    target = make_target({"kind": "llvm", "mcpu": "znver4", "mattr": ["-avx512f", "+avxvnni"]})
    extensions = vector_extensions(target)
    assert "avxvnni" in extensions
    assert "avx512f" not in extensions


# What Linux calls avx512_vnni is avx512vnni to LLVM.
ZNVER4 = {machine.CPU_FEATURES[name] for name in vector_extensions(make_target("llvm:znver4"))}


def test_the_host_has_what_linux_lists(monkeypatch):
    monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset(ZNVER4))
    monkeypatch.setattr("tvm.target.codegen.llvm_get_system_cpu", lambda: "znver4")
    assert "mattr" not in host().attrs
    monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset(ZNVER4 - {"avx512_vnni"}))
    assert list(host().attrs["mattr"]) == ["-avx512vnni"]


def test_a_masked_model_keeps_what_linux_lists(monkeypatch):
    monkeypatch.setattr("tvm.target.codegen.llvm_get_system_cpu", lambda: "rocketlake")
    monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset(ZNVER4 | {"avx512_fp16"}))
    assert list(host().attrs["mattr"]) == ["+avx512bf16"]
    assert "avx512bf16" in vector_extensions(host())


def test_a_target_with_more_than_this_processor_does_not_run_here(monkeypatch):
    monkeypatch.setattr("tvm_iree_ext.runtime.machine.is_this_machine", lambda triple: True)
    monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset(ZNVER4))
    assert obstacle(make_target("llvm:znver4")) == ""
    assert obstacle(make_target("llvm:sapphirerapids")) == (
        "target sapphirerapids: its kernels use avx512fp16, avxvnni, amx-tile, amx-bf16,"
        " amx-int8, which this processor lacks"
    )


@pytest.mark.parametrize(
    ("name", "bits", "registers"),
    [
        ("llvm:znver4", 512, 32),
        ("llvm:skylake-avx512", 512, 32),
        ("llvm:haswell", 256, 16),
        ("llvm:nehalem", 128, 16),
        ("llvm:neoverse-n1@aarch64-linux-gnu", 128, 32),
    ],
)
def test_features_come_from_the_target(name, bits, registers):
    features = cpu_features(make_target(name))
    assert (features.vector_bits, features.vector_registers) == (bits, registers)


def test_a_gpu_has_no_cpu_features():
    with pytest.raises(TargetError, match="cuda is not a CPU target"):
        cpu_features(Target({"kind": "cuda", "arch": "sm_80"}))
