"""What a notebook shows of records."""

import dataclasses
import re
from html import unescape

import tvm_iree_ext as ext
from tvm_iree_ext.records import Record, RecordList, record_files

OPERANDS = [
    {"name": "x", "shape": [64, 512], "dtype": "float32", "role": "input"},
    {"name": "y", "shape": [64, 512], "dtype": "float32", "role": "result"},
]
WON = Record.of(
    {"op": "scan", "operands": OPERANDS, "attributes": {}},
    {"kind": "llvm", "mcpu": "znver4", "num-cores": 1},
    "cpu.scan",
    {"algorithm": "prefix", "vector_lanes": 1},
    times_us=(9.0, 10.0, 11.0),
    baseline_us=15.0,
)
FAILED = dataclasses.replace(WON, status="crashed", message="signal <11>", times_us=())
OLD = dataclasses.replace(WON, versions={"tvm-iree-ext": "0.0.1"})


def text_of(html):
    return re.sub(r"\s+", " ", unescape(re.sub("<[^>]+>", " ", html)))


def test_a_record_shows_its_task_its_gain_and_what_is_special_of_its_config():
    text = text_of(WON._repr_html_())
    assert f"scan 64x512 llvm znver4, 1 core 10 15 1.50x measured {WON.date[:10]} config" in text
    assert text.rstrip().endswith("config algorithm prefix")


def test_failures_and_records_of_other_versions_say_so():
    text = text_of(RecordList([FAILED, OLD])._repr_html_())
    assert "crashed signal <11>" in text
    assert "of another version: not used" in text
    assert "inf" not in text


def test_of_very_many_records_the_first_are_shown():
    html = RecordList([WON] * 205)._repr_html_()
    assert html.count("64x512") == 200
    assert "... and 5 more" in html


def test_a_file_shows_the_best_of_each_task_and_folds_the_others(tmp_path):
    path = tmp_path / "records.jsonl"
    database = ext.tuning.Database(path)
    assert "no records" in database._repr_html_()
    for one in (WON, dataclasses.replace(WON, times_us=(5.0,)), FAILED):
        database.append(one)
    best, every = database._repr_html_().split("all records")
    assert "3 records, of 1 task; 1 failed" in best
    assert ("3.00x" in best, "1.50x" in best) == (True, False)
    assert "1.50x" in every
    assert type(record_files.read(path)) is type(database.records()) is RecordList
    path.unlink()
    assert "No such file" in database._repr_html_()
