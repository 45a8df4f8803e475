"""``tvm-iree-ext fleet``: what it refuses; tests/tuning has a fleet."""


def test_what_cannot_be_is_said(command, tmp_path, monkeypatch):
    assert "no tracker at 127.0.0.1:1" in command("fleet", "status", "--tracker", "127.0.0.1:1").err
    assert "is no address of a tracker" in command("fleet", "status", "--tracker", ":x").err
    open_server = ("fleet", "server", "--host", "0.0.0.0", "--tracker", "127.0.0.1:1")
    for opened in (open_server, ("fleet", "tracker", "--host", "0.0.0.0")):
        assert "let TVM_IREE_EXT_FLEET_SECRET name a file with a secret" in command(*opened).err
    (tmp_path / "secret").write_text("0123456789abcdef")
    (tmp_path / "secret").chmod(0o600)
    monkeypatch.setenv("TVM_IREE_EXT_FLEET_SECRET", str(tmp_path / "secret"))
    done = command(*open_server)
    assert (done.status, "no tracker at" in done.err) == (1, True)
