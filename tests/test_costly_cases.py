"""Which cases of a costly test are run where not all are."""

pytest_plugins = ["pytester"]

TESTS = """
import pytest

@pytest.mark.costly
@pytest.mark.parametrize("chip", range(4))
@pytest.mark.parametrize("dtype", range(6))
def test_product(chip, dtype): pass

@pytest.mark.costly
def test_single(): pass

@pytest.mark.long
def test_long(): pass

@pytest.mark.parametrize("case", range(5))
def test_cheap(case): pass
"""


def run(pytester, root, *options):
    pytester.makeconftest((root / "tests/conftest.py").read_text())
    pytester.makepyfile(TESTS)
    settings = ["-o", f"pythonpath={root / 'tests/support'}", "-o", "markers=costly\nlong"]
    return pytester.inline_run(*settings, *options)


def passed(reports):
    return [report.nodeid.partition("::")[2] for report in reports.listoutcomes()[0]]


def test_a_part_shows_as_many_values_as_it_can(pytester, root):
    names = passed(run(pytester, root))
    products = [name for name in names if name.startswith("test_product")]
    assert len(products) == 2  # of 24
    values = [name.removeprefix("test_product[").removesuffix("]").split("-") for name in products]
    assert [len(set(of_a_parameter)) for of_a_parameter in zip(*values, strict=True)] == [2, 2]
    assert "test_single" in names
    assert "test_long" not in names
    assert len([name for name in names if name.startswith("test_cheap")]) == 5


def test_all_cases_may_be_asked_for(pytester, root):
    assert len(passed(run(pytester, root, "--all-cases"))) == 24 + 2 + 5


def test_a_case_is_run_that_is_named(pytester, root):
    for case in ("test_product[0-0]", "test_product[5-3]"):
        assert passed(run(pytester, root, f"test_a_case_is_run_that_is_named.py::{case}")) == [case]
    assert len(passed(run(pytester, root, "-k", "product and 5-"))) == 1  # of 4
