"""``tvm-iree-ext fleet``: what it refuses; tests/tuning has a fleet."""


def test_what_cannot_be_is_said(command):
    assert "no tracker at 127.0.0.1:1" in command("fleet", "status", "--tracker", "127.0.0.1:1").err
    assert "is no address of a tracker" in command("fleet", "status", "--tracker", ":x").err
    open_server = ("fleet", "server", "--host", "0.0.0.0", "--tracker", "127.0.0.1:1")
    assert "give it one by --key" in command(*open_server).err
    done = command(*open_server, "--key", "secret")
    assert (done.status, "no tracker at" in done.err) == (1, True)
