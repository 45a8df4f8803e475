import json

from tvm_iree_ext import doctor
from tvm_iree_ext.doctor import InstallationFinding

LACKING = [
    InstallationFinding("Python", "ok", "3.12", needed=True),
    InstallationFinding(
        "linker", "missing", "none for this machine", "apt install gcc", needed=True
    ),
    InstallationFinding("tuning", "missing", "no xgboost", "pip install xgboost"),
]


def test_a_line_for_each_finding_and_a_verdict(command):
    done = command("doctor")
    assert (done.status, done.err) == (0, "")
    assert len(done.lines) == len(doctor.examine()) + 1
    assert done.lines[0].startswith("ok       Python ")
    assert done.lines[-1] == "all that is needed is here"


def test_says_what_to_do_and_fails_where_something_needed_is_missing(command, monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda: LACKING)
    done = command("doctor")
    assert done.status == 1
    assert done.lines == [
        "ok       Python  3.12",
        "missing  linker  none for this machine; apt install gcc",
        "missing  tuning  no xgboost; pip install xgboost",
        "needed and not right: linker",
    ]


def test_json_holds_all_of_it(command, monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda: LACKING)
    done = command("doctor", "--json")
    data = json.loads(done.out)
    assert (done.status, data["healthy"]) == (1, False)
    assert [InstallationFinding(**finding) for finding in data["findings"]] == LACKING
