from types import SimpleNamespace

import pytest

from tvm_iree_ext.cli.main import main


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    """``command(*arguments)``: status, output and complaints of ``tvm-iree-ext``.

    With a cache of its own.
    """
    monkeypatch.setenv("TVM_IREE_EXT_CACHE", str(tmp_path / "cache"))

    def run(*arguments):
        try:
            status = main([*map(str, arguments)])
        except SystemExit as stop:  # argparse
            status = stop.code
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err, lines=out.splitlines())

    return run
