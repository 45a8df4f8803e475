import dataclasses
import json

import pytest

from tvm_iree_ext.registry import ENTRIES

ATTENTION = "iree_linalg_ext.attention"


@pytest.fixture
def examples(root):
    return root / "tests" / "data" / "examples.json"


@pytest.fixture
def with_another(examples, tmp_path):
    """The examples, and one of an op that there is not."""
    data = json.loads(examples.read_text("utf-8"))
    data["cases"].append({"id": "unheard_of/case", "op": "iree_vector_ext.unheard_of"})
    path = tmp_path / "examples.json"
    path.write_text(json.dumps(data), "utf-8")
    return path


@pytest.fixture
def planted(monkeypatch):
    """Attention's reference is off by one."""

    def wrong(op, operands):
        right = ENTRIES["iree_linalg_ext.online_attention"].reference(op, operands)
        return {name: array + 1 for name, array in right.items()}

    entry = dataclasses.replace(ENTRIES[ATTENTION], reference=wrong)
    monkeypatch.setitem(ENTRIES, ATTENTION, entry)


def test_the_examples_pass_in_a_process_of_their_own(command, with_another):
    ops = ("--op", "pack", "--op", "unheard_of")
    done = command("verify", "--examples", with_another, *ops)
    assert (done.status, done.err) == (0, "")
    assert done.lines == [
        "iree_vector_ext.unheard_of: not supported yet (1 case)",
        "7 passed, 0 failed",
    ]


def test_only_the_ops_that_are_named(command, with_another):
    ops = ("--op", "nested_layout", "--op", "unheard_of")
    done = command("verify", "--examples", with_another, *ops, "--jobs", 0)
    assert done.lines == [
        "iree_vector_ext.unheard_of: not supported yet (1 case)",
        "11 passed, 0 failed",
    ]


def test_random_cases_beside_examples_where_they_are_asked_for(command, examples):
    arguments = ("--examples", examples, "--op", "pack", "--cases", 2, "--jobs", 0)
    assert command("verify", *arguments).lines == ["9 passed, 0 failed"]


def test_a_failure_says_how_to_get_it_again(command, planted):
    done = command("verify", "--op", "attention", "--cases", 2, "--seed", 4, "--jobs", 0)
    assert done.status == 1
    assert done.lines[0].startswith(f"FAILED {ATTENTION} --seed 4 --case 0: output")
    assert done.lines[1].startswith(f"FAILED {ATTENTION} --seed 4 --case 1: output")
    assert done.lines[2:] == ["0 passed, 2 failed"]
    again = command("verify", "--op", ATTENTION, "--seed", 4, "--case", 1, "--jobs", 0)
    assert again.lines == [done.lines[1], "0 passed, 1 failed"]


def test_json_holds_all_of_it(command, planted):
    ops = ("--op", "attention", "--op", "online_attention")
    done = command("verify", *ops, "--cases", 1, "--jobs", 0, "--json")
    data = json.loads(done.out)
    assert done.status == 1
    assert (data["passed"], data["failed"], data["unsupported"]) == (1, 1, 0)
    assert [result["status"] for result in data["results"]] == ["failed", "passed"]


def test_a_run_in_which_nothing_was_built_is_no_success(command, with_another):
    done = command("verify", "--examples", with_another, "--op", "unheard_of", "--jobs", 0)
    assert done.status == 1
    assert done.lines == [
        "iree_vector_ext.unheard_of: not supported yet (1 case)",
        "0 passed, 0 failed",
    ]
    assert "nothing was run" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--op", "softmax"], "no op 'softmax'; registered are "),
        (["--examples", "none.json"], "cannot read none.json: No such file"),
        (["--target", "llvm:generic@riscv64-linux-gnu"], "its kernels do not run on this"),
        (["--target", "tpu"], "kind is 'tpu'; supported are llvm"),
    ],
)
def test_a_refusal_is_one_line(command, arguments, message):
    done = command("verify", *arguments)
    assert (done.status, done.out) == (1, "")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_refuses_a_file_that_is_no_examples(command, tmp_path):
    (tmp_path / "examples.json").write_text('{"schema": 1, "cases": [')
    done = command("verify", "--examples", tmp_path / "examples.json")
    assert done.status == 1
    assert "is not valid JSON" in done.err


@pytest.mark.parametrize("arguments", [["--cases", "0"], ["--seed", "-1"], ["--jobs", "two"]])
def test_numbers_are_checked(command, arguments):
    done = command("verify", *arguments)
    assert done.status == 2
    assert "is not a number from" in done.err


def test_shows_a_bar_on_a_terminal(command, examples, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    done = command("verify", "--examples", examples, "--op", "nested_layout", "--jobs", 0)
    assert "11/11" in done.err
    assert done.lines == ["11 passed, 0 failed"]


def test_kernels_for_a_gpu_are_simulated(command):
    done = command(
        "verify", "--op", "pack", "--cases", 2, "--target", "cuda:sm_80", "--simulate", "--jobs", 0
    )
    assert (done.status, done.lines[-1]) == (0, "2 passed, 0 failed")
    done = command("verify", "--op", "pack", "--simulate", "--jobs", 0)
    assert "llvm is no GPU target" in done.err


def test_what_is_simulated_and_does_not_compile_is_a_failure(command, monkeypatch):
    monkeypatch.setattr("tvm_iree_ext.codegen.linker._lld", lambda: [])
    case = ("verify", "--op", "pack", "--cases", 1, "--target", "rocm:gfx942", "--simulate")
    done = command(*case, "--jobs", 0)
    assert done.status == 1
    assert "no ld.lld; install one" in done.lines[0]
    assert command(*case, "--jobs", 0, "--no-compile").lines[-1] == "1 passed, 0 failed"


def test_without_a_gpu_they_are_not_run(command):
    done = command("verify", "--op", "pack", "--target", "rocm:gfx942", "--jobs", 0)
    assert "no GPU driver" in done.err
    assert "verify there, or simulate here" in done.err
