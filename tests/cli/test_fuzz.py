"""fuzz texts and fuzz programs, as a user types them."""

from tvm_iree_ext.random_programs.trials import campaign
from tvm_iree_ext.random_programs.trials.task import Recipe, TrialOutcome


def test_texts_are_tried_and_shown(command, root):
    folder = root / "tests" / "data" / "mlir"
    done = command("fuzz", "texts", folder, "--count", "3")
    assert done.status == 0
    assert " refused" in done.out or " imported" in done.out
    assert len(command("fuzz", "texts", folder, "--case", "2", "--show").out) > 10
    assert "no .mlir file" in command("fuzz", "texts", root / "docs").err


def test_programs_are_tried_and_counted(command, monkeypatch, tmp_path):
    seen = []

    def result(setting, recipes, **options):
        seen.append((setting, recipes, options))
        yield campaign.CampaignResult(setting, recipes[0], "right")
        yield campaign.CampaignResult(
            setting, recipes[1], "refused", "no rule of 7", "refused: no rule of N"
        )

    monkeypatch.setattr("tvm_iree_ext.random_programs.run", result)
    log = tmp_path / "log.jsonl"
    words = ["--from", "stablehlo", "--types", "int8,bool", "--count", "2", "--seed", "5"]
    more = ["--ops", "9", "--target", "cuda:sm_80", "--simulate", "--log", log, "--minutes", "2"]
    done = command("fuzz", "programs", *words, *more)
    assert done.status == 0
    assert done.lines == ["refused: no rule of N (1)", "1 right, 1 refused"]
    ((setting, recipes, options),) = seen
    assert (setting.door, setting.target, setting.simulate) == ("stablehlo", "cuda:sm_80", True)
    assert recipes == [Recipe(5, "int8", 9), Recipe(6, "bool", 9)]
    assert (options["log"], options["minutes"], options["jobs"]) == (log, 2, 1)


def test_what_is_wrong_is_printed_and_fails(command, monkeypatch):
    def result(setting, recipes, **options):
        yield campaign.CampaignResult(
            setting, recipes[0], "wrong", "result 0 is 1", script="# a script"
        )

    monkeypatch.setattr("tvm_iree_ext.random_programs.run", result)
    done = command("fuzz", "programs", "--types", "int8")
    assert done.status == 1
    assert done.lines == ["wrong: linalg, int8, seed 0: result 0 is 1", "# a script", "1 wrong"]


def test_what_is_not_there_is_refused(command):
    assert "no door 'onnx'" in command("fuzz", "programs", "--from", "onnx").err
    assert "no programs of 'f8'" in command("fuzz", "programs", "--types", "f8").err
    assert command("fuzz", "programs", "--ops", "2").status == 2


def test_outcomes_have_a_cause_without_their_numbers():
    first, second = (
        TrialOutcome(
            "foreign", f"ValueError: {n} of 'x'\nCheck failed: {n} == 0x{n}f at /a/{n}.cc:{n}"
        )
        for n in (3, 12)
    )
    assert first.cause == second.cause == "foreign: Check failed: N == N at N"
