"""Figures of CPU models: each has a source, and a model has those of its family."""

import dataclasses

from tvm_iree_ext.schedules.cpu.products.register_tiles import (
    column_vectors,
    depth_tile,
    register_tile,
)
from tvm_iree_ext.targets.cpu import cpu_features
from tvm_iree_ext.targets.cpu_models import CpuModel, cpu_model, figures
from tvm_iree_ext.targets.names import make_target


def test_every_figure_says_where_it_comes_from():
    fields = {field.name for field in dataclasses.fields(CpuModel)}
    for row in figures():
        assert set(row) == {"cpu", "field", "value", "source", "machine", "date"}
        assert row["field"] in fields
        assert all(row[name] for name in ("source", "machine", "date"))


def test_a_model_has_the_figures_of_its_family():
    zen = cpu_model("znver4")
    assert zen == CpuModel(
        fast_pairs=True,
        first_cache_bytes=32 << 10,
        second_cache_bytes=1 << 20,
        last_cache_bytes=32 << 20,
        fetches_second=True,
        in_halves=True,
        adds_apart=True,
    )
    assert cpu_model("znver3") == dataclasses.replace(zen, in_halves=False)
    assert cpu_model("znver2").last_cache_bytes == 16 << 20


def test_a_model_without_figures_takes_none_for_granted():
    assert cpu_model("skylake-avx512") == cpu_model("") == CpuModel()
    assert cpu_model("cooperlake") == CpuModel(fast_pairs=True)
    assert cpu_model("icelake-server") == CpuModel(last_cache_bytes=16 << 20)


def test_blocks_are_chosen_for_the_caches_of_a_target():
    features = cpu_features(make_target("llvm:znver4"))
    assert (features.first_cache_bytes, features.second_cache_bytes) == (32 << 10, 1 << 20)
    tile = register_tile(features, column_vectors(features, 4, None), None, None)
    half = features.second_cache_bytes // 2
    halved = dataclasses.replace(features, second_cache_bytes=half)
    assert depth_tile(halved, tile, 8) == depth_tile(features, tile, 8) // 2
