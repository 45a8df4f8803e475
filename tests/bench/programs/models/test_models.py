"""The list of programs: its names, and those that are quickly made."""

import importlib
import importlib.util
from dataclasses import replace

import pytest

from tvm_iree_ext.bench.programs.listed_programs import MODELS, PROGRAMS, select_programs

SMALL = {
    "torch": ("unet_bilinear_up", "mobilenetv2_block", "swin_block", "gru", "torch_sort"),
    "jax": ("jax_rnn_scan", "moe_ragged", "cnn_train_step", "nms", "cg_while_loop", "fft_conv"),
}


def test_the_list_has_each_program_once():
    assert len(PROGRAMS) == 48
    assert all(case.name == name for name, case in PROGRAMS.items())
    assert all(importlib.util.find_spec(case.module) for case in PROGRAMS.values())


@pytest.mark.parametrize("module", sorted({case.module for case in MODELS.values()}))
def test_models_of_packages_are_listed_as_they_are_made(module):
    pytest.importorskip("torch", reason="their framework: scripts/setup dev bench")
    listed = [name for name, case in MODELS.items() if case.module == module]
    assert sorted(importlib.import_module(module).MODELS) == sorted(listed)


def test_what_is_looser_or_without_float64_says_why():
    usual = next(iter(PROGRAMS.values()))
    for case in (*PROGRAMS.values(), *MODELS.values()):
        if (case.relative, case.absolute, case.reference) != (1e-4, 1e-4, "float64"):
            assert case.reason != usual.reason, case.name


@pytest.mark.parametrize("framework", SMALL)
def test_programs_are_made_the_same_each_time(framework):
    library = pytest.importorskip(framework, reason="their framework: scripts/setup dev bench")
    for name in SMALL[framework]:
        first, second = PROGRAMS[name].make(), PROGRAMS[name].make()
        pairs = zip(first.arguments, second.arguments, strict=True)
        if framework == "torch":
            assert all(library.equal(a, b) for a, b in pairs), name
            states = first.function.state_dict(), second.function.state_dict()
            assert all(library.equal(one, states[1][key]) for key, one in states[0].items()), name
        else:
            shapes = [
                library.eval_shape(model.function, *model.arguments) for model in (first, second)
            ]
            assert library.tree.leaves(shapes[0]) == library.tree.leaves(shapes[1]), name


def test_programs_are_chosen_by_name_and_by_parts():
    assert [case.name for case in select_programs(containing="moe|gru")] == [
        "gru",
        "moe",
        "moe_ragged",
    ]
    assert [case.name for case in select_programs(["resnet50"], listed=MODELS)] == ["resnet50"]
    with pytest.raises(ValueError, match="no program 'gpt9'; there are gpt2_block, "):
        select_programs(["gpt9"])
    with pytest.raises(ValueError, match="no program has 'gpt9' in its name"):
        select_programs(containing="gpt9")


def test_what_is_left_out_is_built_where_it_is_asked_for(monkeypatch):
    left_out = replace(PROGRAMS["gru"], left_out="for a reason")
    monkeypatch.setitem(PROGRAMS, "gru", left_out)
    assert select_programs(containing="gru")[0].left_out == "for a reason"
    assert not select_programs(["gru"])[0].left_out
