"""Figures of CPU models: each has a source, and a model has those of its family."""

import dataclasses

from tvm_iree_ext.targets.cpu_models import CpuModel, cpu_model, figures


def test_every_figure_says_where_it_comes_from():
    fields = {field.name for field in dataclasses.fields(CpuModel)}
    for row in figures():
        assert set(row) == {"cpu", "field", "value", "source", "machine", "date"}
        assert row["field"] in fields
        assert all(row[name] for name in ("source", "machine", "date"))


def test_a_model_has_the_figures_of_its_family():
    zen = cpu_model("znver4")
    assert zen == CpuModel(True, 32 << 20, fetches_second=True, in_halves=True, adds_apart=True)
    assert cpu_model("znver3") == dataclasses.replace(zen, in_halves=False)
    assert cpu_model("znver2").last_cache_bytes == 16 << 20


def test_a_model_without_figures_takes_none_for_granted():
    assert cpu_model("skylake-avx512") == cpu_model("") == CpuModel()
    assert cpu_model("cooperlake") == CpuModel(fast_pairs=True)
    assert cpu_model("icelake-server") == CpuModel(last_cache_bytes=16 << 20)
