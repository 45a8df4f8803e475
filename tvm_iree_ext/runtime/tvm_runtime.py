"""The TVM runtime: one library, loaded when a kernel needs it, and its threads.

A parallel kernel, or one that asks for workspace, calls ``libtvm_runtime``; loaded without it, the
kernel would jump to address 0. A serial kernel needs ``apache-tvm-ffi`` alone.
"""

import contextlib
import ctypes
import functools
import importlib.util
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import tvm_ffi
import tvm_ffi.libinfo

import tvm_iree_ext.base.ffi_errors  # noqa: F401 - errors keep their class
from tvm_iree_ext.base.errors import ArtifactError

RUNTIME_LIBRARY = "libtvm_runtime.so"
_SPINS = 1000  # of a worker without work, each a call of sched_yield: 0.7 ms of an idle processor
_lock = threading.Lock()
_this_thread = threading.local()


def ensure_loaded(beside: Path | None = None) -> None:
    """Load the TVM runtime unless this process has it, and set its threads up.

    Looked for in ``$TVM_LIBRARY_PATH``, in an installed ``tvm`` package (which is not imported),
    and in the folder ``beside``. An installed ``tvm`` goes first because a later ``import tvm``
    loads that one, and two runtimes in a process do not get along.

    Raises:
        ArtifactError: where there is none, or it does not load.
    """
    with _lock:
        _configure_pool()
        if is_loaded():
            return
        path = find_runtime(beside)
        try:
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise ArtifactError(f"the TVM runtime {path} does not load: {error}") from error


def is_loaded() -> bool:
    """Whether this process has the TVM runtime, loaded by ``import tvm`` or by this module."""
    return tvm_ffi.get_global_func("runtime.NumThreads", allow_missing=True) is not None


def find_runtime(beside: Path | None = None) -> Path:
    """The file of the TVM runtime; see :func:`ensure_loaded` for where it is looked for.

    Raises:
        ArtifactError: where there is none.
    """
    folders = [Path(p) for p in os.environ.get("TVM_LIBRARY_PATH", "").split(os.pathsep) if p]
    spec = importlib.util.find_spec("tvm")
    if spec is not None and spec.origin is not None:
        folders.append(Path(spec.origin).parent / "lib")
    if beside is not None:
        folders.append(beside)
    for folder in folders:
        if (folder / RUNTIME_LIBRARY).is_file():
            return folder / RUNTIME_LIBRARY
    raise ArtifactError(
        f"{RUNTIME_LIBRARY} not found in {', '.join(map(str, folders)) or 'TVM_LIBRARY_PATH'}:"
        " this kernel needs the TVM runtime; install apache-tvm, put the library beside the"
        " artifact (export with runtime=True), or name its folder in TVM_LIBRARY_PATH"
    )


def find_ffi() -> Path:
    """The file of ``libtvm_ffi``, which the runtime and every kernel need."""
    return Path(tvm_ffi.libinfo.find_libtvm_ffi())


@functools.cache
def _configure_pool() -> None:
    """Use every processor that this process may use, pin no thread to one, and spin briefly.

    Left alone, TVM's pool has half the logical processors on x86, and pins its threads *and the
    calling thread* to processors counted from 0: threads started later by anyone (PyTorch,
    OpenBLAS) inherit the pin, and processes side by side share one core. Its workers look out for
    more work 300,000 times, even when the thread whose pool they are has ended: 0.2 s each of an
    idle processor, and minutes before the process ends on a busy one. 1000 times still reach from
    one call to the next of calls back to back.

    TVM reads the settings from the environment when a thread launches its first parallel kernel;
    they are inherited by child processes, and those that the user set are kept.
    """
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", str(_SPINS))
    if "OMP_NUM_THREADS" not in os.environ:
        os.environ.setdefault("TVM_NUM_THREADS", str(available_processors()))


def available_processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def num_threads() -> int:
    """How many threads a parallel kernel uses when called from this thread."""
    ensure_loaded()
    return tvm_ffi.get_global_func("runtime.NumThreads")()


def set_num_threads(count: int) -> None:
    """Let parallel kernels use ``count`` threads, in calls from this thread and new ones.

    Each Python thread that calls a parallel kernel has a pool of its own, as large as
    ``TVM_NUM_THREADS`` says at its first call; afterwards it uses that many or fewer.

    Raises:
        ValueError: for a count below 1, above the size of this thread's pool, or above 1 in a
            forked process.
    """
    if count < 1:
        raise ValueError(f"the number of threads is {count}; it starts at 1")
    if count > 1 and getattr(_this_thread, "is_forked", False):
        raise ValueError(
            f"the number of threads is {count}; this thread was forked, and the workers were not:"
            " call from a new thread, or start the process by 'spawn'"
        )
    ensure_loaded()
    environment = os.environ.get("TVM_NUM_THREADS")
    # The size of this thread's pool, if it has none yet: room for this call and later ones.
    os.environ["TVM_NUM_THREADS"] = str(max(count, available_processors()))
    before = num_threads()
    configure = tvm_ffi.get_global_func("runtime.config_threadpool")
    configure(0, count)
    if num_threads() == count:
        os.environ["TVM_NUM_THREADS"] = str(count)
        return
    configure(0, before)
    _restore("TVM_NUM_THREADS", environment)
    raise ValueError(
        f"the number of threads is {count}; this thread's pool has fewer: set TVM_NUM_THREADS"
        f" to {count} before it calls its first parallel kernel"
    )


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Within the ``with`` block parallel kernels use ``count`` threads.

    Raises:
        ValueError: as :func:`set_num_threads`.
    """
    before = num_threads()
    environment = os.environ.get("TVM_NUM_THREADS")
    set_num_threads(count)
    try:
        yield
    finally:
        set_num_threads(before)
        _restore("TVM_NUM_THREADS", environment)


def _run_serially() -> None:
    """Let this thread, which is alone in a forked child, call kernels without workers.

    The child has its parent's pool and not the pool's threads: a parallel kernel would wait for
    them for ever. Threads that the child starts get pools of their own.
    """
    if is_loaded():
        _this_thread.is_forked = True
        environment = os.environ.get("TVM_NUM_THREADS")
        os.environ["TVM_NUM_THREADS"] = "1"  # no threads for a pool that is made only now
        tvm_ffi.get_global_func("runtime.config_threadpool")(0, 1)
        _restore("TVM_NUM_THREADS", environment)


os.register_at_fork(after_in_child=_run_serially)


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
