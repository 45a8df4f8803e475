"""Sessions with a measurer that computes times from configs: what is tried, kept and resumed."""

import contextlib
import os
import signal
import subprocess
import sys

import computed_measurer
import pytest
from computed_measurer import Computed

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.tuning import display
from tvm_iree_ext.tuning.base.record_database import Database
from tvm_iree_ext.tuning.base.task import Task
from tvm_iree_ext.tuning.session import tune

OP = ext.ops.topk((4, 3000), dimension=1, k=8)


def by_vectors(config):
    """The more vectors the better, by digits; the heap crashes."""
    if config.algorithm == "heap":
        return "crashed"
    vectors = config.register_tile["vectors"]
    return 100.0 / vectors + abs(config.workgroup_tile["candidates"] - 512) / 100


def run(path, measurer, **how):
    how = {"effort": "quick", "model": "random", "trials": 24} | how
    return tune(OP, database=path, measurer=lambda: contextlib.nullcontext(measurer), **how)


def test_what_beats_the_heuristic_is_kept_and_taken_by_build(tmp_path):
    path = tmp_path / "records.jsonl"
    session = run(path, Computed(by_vectors))
    (tuner,) = session.tuners
    time_us, baseline_us, config = tuner.confirmed
    assert session.ended == "trials"
    assert tuner.trials >= 24
    assert time_us < 0.9 * baseline_us == 0.9 * by_vectors(tuner.heuristic)
    assert config.register_tile["vectors"] == 16
    assert tuner.failures["crashed"] > 0
    kernel = ext.build(OP, database=path)
    assert (kernel.provenance, kernel.config) == ("record exact", config)


def test_nothing_beats_the_heuristic_is_an_end(tmp_path):
    path = tmp_path / "records.jsonl"
    session = run(path, Computed(lambda config: 50.0))
    (tuner,) = session.tuners
    assert tuner.confirmed == (50.0, 50.0, tuner.heuristic)
    assert ext.build(OP, database=path).provenance == "heuristic"


def test_a_lucky_trial_does_not_win(tmp_path):
    """Each candidate is fast once, and as slow as the heuristic in the turns at the end."""
    seen = set()

    def lucky(config):
        first = str(config) not in seen
        seen.add(str(config))
        return 10.0 if first and len(seen) > 1 else 50.0

    path = tmp_path / "records.jsonl"
    session = run(path, Computed(lucky))
    (tuner,) = session.tuners
    assert tuner.best[0] == 10.0
    assert tuner.confirmed[2] == tuner.heuristic
    assert ext.build(OP, database=path).provenance == "heuristic"


KILLED = """
import importlib.util, os, signal, sys
spec = importlib.util.spec_from_file_location("sessions", sys.argv[1])
sessions = importlib.util.module_from_spec(spec)
sys.modules["sessions"] = sessions
spec.loader.exec_module(sessions)
def after(number):
    if number >= 13:
        os.kill(os.getpid(), signal.SIGKILL)
sessions.run(sys.argv[2], sessions.Computed(sessions.by_vectors, after), model=sys.argv[3])
"""


@pytest.mark.costly
@pytest.mark.parametrize("model", ["random", "xgboost"])
def test_a_killed_session_ends_with_the_records_of_one_that_was_not(tmp_path, model):
    if model == "xgboost":
        pytest.importorskip("xgboost")
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    run(whole, Computed(by_vectors), model=model)

    support = {**os.environ, "PYTHONPATH": os.path.dirname(computed_measurer.__file__)}
    command = [sys.executable, "-c", KILLED, __file__, cut, model]
    killed = subprocess.run(command, env=support)
    assert killed.returncode == -signal.SIGKILL
    before = len(Database(cut).records())
    measurer = Computed(by_vectors)
    run(cut, measurer, model=model)
    assert 8 <= before < 14
    assert trials(cut) == trials(whole)


def trials(path):
    records = [one for one in Database(path).records() if one.method == "trial"]
    return [(str(one.config), one.status, one.times_us) for one in records]


def test_a_session_that_was_done_is_continued(tmp_path):
    path = tmp_path / "records.jsonl"
    run(path, Computed(by_vectors))
    first = trials(path)
    run(path, Computed(by_vectors))
    both = trials(path)
    assert both[: len(first)] == first
    assert len(both) == len({config for config, *_ in both}) > len(first)


def test_a_signal_ends_a_session_well(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    session = run(tmp_path / "records.jsonl", Computed(by_vectors, stop_at(9, signal.SIGTERM)))
    assert session.ended == "stopped"
    assert session.fresh < 24
    assert session.tuners[0].confirmed is not None
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_second_signal_ends_a_session_now_and_keeps_its_records(tmp_path):
    """Three at once: the third must not disturb what the second ends."""
    path, before, unheard = tmp_path / "records.jsonl", signal.getsignal(signal.SIGINT), []

    def after(number):
        if number == 9:
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            unheard.append(number)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(path, Computed(by_vectors, after))
    assert unheard
    assert trials(path)
    assert signal.getsignal(signal.SIGINT) == before


def test_time_is_kept_for_the_turns_at_the_end(tmp_path):
    session = run(tmp_path / "records.jsonl", Computed(by_vectors), time_limit_s=2.1, trials=10**6)
    assert session.ended == "time"
    assert session.tuners[0].confirmed is not None


def test_what_takes_more_time_is_tried_more(tmp_path):
    ops = [ext.ops.topk((4, 3000 + n), dimension=1, k=8) for n in (1, 2)]
    tasks = [Task("often", ops[0], calls=4), Task("seldom", ops[1], calls=1)]
    session = tune(
        tasks,
        database=tmp_path / "records.jsonl",
        measurer=lambda: contextlib.nullcontext(
            Computed(lambda _: 50.0, stop_at(60, signal.SIGINT))
        ),
        model="none",
        effort="quick",
        trials=1000,
    )
    often, seldom = session.tuners
    assert often.fresh > 2 * seldom.fresh > 0


def stop_at(most, signal_number):
    """Sends this process a signal, once so many candidates were submitted."""
    sent = []

    def after(number):
        if number >= most and not sent:
            sent.append(number)
            os.kill(os.getpid(), signal_number)

    return after


def test_an_op_that_cannot_be_measured_is_no_session(tmp_path):
    with pytest.raises(TuningError, match=r"topk: the heuristic's config ended so: crashed"):
        run(tmp_path / "records.jsonl", Computed(lambda _: "crashed"))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"effort": "great"}, "effort is 'great'; expected one of quick"),
        ({"trials": 0}, "the trials is 0; expected more than 0"),
        ({"time_limit_s": -1.0}, "the time limit is -1.0"),
    ],
)
def test_refuses_what_it_cannot_do(tmp_path, how, message):
    with pytest.raises(TuningError, match=message):
        run(tmp_path / "records.jsonl", Computed(by_vectors), **how)


def test_a_task_that_cannot_be_measured_is_left_out(tmp_path):
    """One of two; where it is the only one there is no session."""
    ops = [ext.ops.topk((4, 3000), dimension=1, k=8), ext.ops.topk((4, 3000), dimension=1, k=9)]

    class Half(Computed):
        def submit(self, candidate_id, op, config, operands=None):
            if op is ops[1]:
                raise TuningError("indices are unique; give operands")
            super().submit(candidate_id, op, config, operands)

    session = tune(
        [Task("measured", ops[0]), Task("not", ops[1])],
        database=tmp_path / "records.jsonl",
        measurer=lambda: contextlib.nullcontext(Half(by_vectors)),
        model="none",
        effort="quick",
        trials=8,
    )
    measured, left_out = session.tuners
    assert measured.confirmed is not None
    assert left_out.confirmed is None
    assert left_out.skipped == "indices are unique; give operands"


def test_what_is_shown_meanwhile_fits_a_terminal_of_80_columns(tmp_path):
    session = run(tmp_path / "records.jsonl", Computed(by_vectors))
    for width in (40, 80):
        lines = display._table(session, width).splitlines()
        assert max(map(len, lines[1:])) <= width
        assert "…" not in "".join(lines)
        assert "heuristic" in " ".join(lines)


def test_a_notebook_shows_how_far_a_session_is_and_how_it_ended(tmp_path):
    seen = []

    def update(session):
        seen.append(session._repr_html_())

    session = run(tmp_path / "records.jsonl", Computed(by_vectors), update=update)
    (tuner,) = session.tuners
    assert "measuring the heuristics" in seen[0]
    assert any("searching; " in html and " left<" in html for html in seen)
    last = session._repr_html_()
    assert last == seen[-1]
    assert "all trials done: " in last
    drawn = sum(one.time_us is not None for one in tuner.curve)
    assert last.count("<circle") == drawn < tuner.trials  # not those that crashed
    assert "1.00x" not in last
    assert "vectors=16" in last
    assert tuner._repr_html_() in last


def test_a_task_that_is_left_out_says_why_in_a_notebook(tmp_path):
    other = ext.ops.topk((4, 2000), dimension=1, k=8)
    tasks = [Task("one", OP), Task("two", other)]
    calls = iter(range(1000))
    measurer = Computed(lambda config: "wrong" if next(calls) < 3 else 5.0)
    session = tune(
        tasks,
        database=tmp_path / "records.jsonl",
        measurer=lambda: contextlib.nullcontext(measurer),
        effort="quick",
        model="none",
        trials=2,
    )
    assert session.tuners[0].skipped
    assert "left out: one: the heuristic" in session._repr_html_()
