"""Typed configs: parsed from one JSON form, checked there, and written back."""

from dataclasses import dataclass, fields, replace

import pytest

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number, operands, text
from tvm_iree_ext.schedules.base.space import Choice


@dataclass(frozen=True)
class SampleConfig(RuleConfig):
    """Every kind of field."""

    rows: int = number("register_tile.rows", 64)
    digit_bits: int = number("register_tile.digit_bits", 16, forms=("radix",))
    lanes: int = number("vector_lanes", 32, least=2, power_of_two=True)
    fetch_ahead: bool = flag("stages", 1, 2)
    parallel: bool = flag("parallel")
    promote: tuple[str, ...] = operands("lhs", "rhs")
    part: int = number("workgroup_tile.rows", optional=True)
    mma_kind: str = text("mma_kind")


SAMPLE = SampleConfig(
    "radix",
    rows=4,
    digit_bits=8,
    lanes=8,
    fetch_ahead=True,
    parallel=False,
    promote=("rhs",),
    mma_kind="MFMA",
)
CONFIG = LoweringConfig(
    algorithm="radix",
    register_tile={"rows": 4, "digit_bits": 8},
    vector_lanes=8,
    stages=2,
    parallel=False,
    promote=("rhs",),
    mma_kind="MFMA",
)


def parse(config):
    return SampleConfig.parse(ConfigCheck("cpu.sample", config), "radix", "merge")


def test_a_typed_config_and_a_lowering_config_say_the_same():
    assert SAMPLE.lowering() == CONFIG
    assert parse(CONFIG) == SAMPLE


def test_an_algorithm_has_only_the_numbers_that_it_reads():
    other = replace(CONFIG, algorithm="merge", register_tile={"rows": 4, "digit_bits": 99})
    assert parse(other).digit_bits == 0
    assert "digit_bits" not in parse(other).lowering().register_tile


def test_an_optional_number_is_not_there_or_one_from_its_least():
    assert parse(CONFIG).part == 0
    assert parse(CONFIG.with_value("workgroup_tile.rows", 8)).part == 8
    with pytest.raises(ScheduleError, match=r"workgroup_tile\['rows'\] is 0; expected a number"):
        parse(CONFIG.with_value("workgroup_tile.rows", 0))


def test_defaults_are_those_of_a_lowering_config():
    assert SampleConfig().lowering() == LoweringConfig()


REFUSED = {
    "algorithm": ("heap", "algorithm is 'heap'; expected one of radix, merge"),
    "register_tile.rows": (65, r"register_tile\['rows'\] is 65; expected 1 to 64"),
    "register_tile.digit_bits": (0, r"register_tile\['digit_bits'\] is 0; expected 1 to 16"),
    "vector_lanes": (12, "vector_lanes is 12; expected a power of two from 2 up to 32"),
    "stages": (3, "stages is 3; expected 1 or 2"),
    "parallel": (1, "parallel is 1; expected a bool"),
    "promote": (("acc",), r"promote is \('acc',\); expected some of lhs and rhs"),
}


@pytest.mark.parametrize("key", REFUSED)
def test_refuses_what_a_rule_cannot_use(key):
    value, message = REFUSED[key]
    with pytest.raises(ScheduleError, match=f"cpu.sample: {message}"):
        parse(CONFIG.with_value(key, value))


def test_refuses_a_config_without_a_number_that_is_read():
    with pytest.raises(ScheduleError, match=r"register_tile\['rows'\] is None; expected 1 to 64"):
        parse(replace(CONFIG, register_tile={"digit_bits": 8}))


def test_refuses_fields_by_the_names_of_the_config():
    check = ConfigCheck("cpu.sample", CONFIG)
    assert SAMPLE.multiple(check, "rows", 2, "pairs") == 2
    with pytest.raises(
        ScheduleError, match=r"_tile\['rows'\] is 4; expected a multiple of 3 \(thr"
    ):
        SAMPLE.multiple(check, "rows", 3, "threes")


def test_choices_are_named_by_fields():
    assert SampleConfig.choice("rows", (1, 2), times=("lanes",)) == Choice(
        "register_tile.rows", (1, 2), ("vector_lanes",)
    )
    assert SampleConfig.choice("fetch_ahead", (False, True)) == Choice("stages", (1, 2))


def test_every_field_has_a_place():
    assert all("place" in one.metadata for one in fields(SampleConfig))
