"""Targets by name."""

import json

import pytest
from tvm.target import Target

from tvm_iree_ext.errors import TargetError
from tvm_iree_ext.target.cpu import cpu_features
from tvm_iree_ext.target.names import make_target, target_json


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
    ],
)
def test_refuses_what_it_does_not_know(name, message):
    with pytest.raises(TargetError, match=message):
        make_target(name)


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
