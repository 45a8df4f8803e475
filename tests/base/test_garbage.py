import gc
import threading

import pytest

from tvm_iree_ext.base.garbage import collector_at_rest


def test_the_collector_rests_within_and_goes_on_after():
    with collector_at_rest():
        assert not gc.isenabled()
        with collector_at_rest():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error():
    with pytest.raises(ValueError, match="wrong"), collector_at_rest():
        raise ValueError("wrong")
    assert gc.isenabled()


def test_the_last_of_several_threads_lets_it_go_on():
    inside, leave = threading.Event(), threading.Event()

    def rest():
        with collector_at_rest():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=rest)
    with collector_at_rest():
        thread.start()
        assert inside.wait(10)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_it_stays_off_where_it_was():
    gc.disable()
    try:
        with collector_at_rest():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
