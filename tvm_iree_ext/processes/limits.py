"""Limits of processes: what runs hostile or unknown input sets them on itself, or on its child."""

import contextlib
import os
import resource


def set_limit(which: int, soft: int) -> None:
    """Set one of :mod:`resource`'s limits, where the system has it."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))


def limit_memory(more_bytes: int) -> None:
    """Let the process take so much address space beside what it has."""
    set_limit(resource.RLIMIT_AS, _mapped_bytes() + more_bytes)


def lift_memory_limit() -> None:
    """Let it take what the system gives."""
    set_limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)


def limit_child(process: int, data_bytes: int, wall_s: float) -> None:
    """Let another process take so much memory that it can write to, and leave no core file.

    It also ends by itself when it has computed for ``wall_s`` on all processors: whoever waits for
    it may be killed.  Only Linux sets another's limits.
    """
    seconds = int(wall_s * (os.cpu_count() or 1)) + 1
    with contextlib.suppress(AttributeError, OSError):
        resource.prlimit(process, resource.RLIMIT_CPU, (seconds, seconds))
        resource.prlimit(process, resource.RLIMIT_DATA, (data_bytes, data_bytes))
        resource.prlimit(process, resource.RLIMIT_CORE, (0, 0))


def limit_seconds(more_s: int) -> None:
    """End the process by a signal when it has computed so much longer."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    set_limit(resource.RLIMIT_CPU, int(usage.ru_utime + usage.ru_stime) + more_s + 1)


def no_core_file() -> None:
    """Leave no image of the memory behind after a crash."""
    set_limit(resource.RLIMIT_CORE, 0)


def machine_memory() -> int:
    """How much memory the machine has, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _mapped_bytes() -> int:
    with contextlib.suppress(OSError), open("/proc/self/statm") as pages:
        return int(pages.read().split()[0]) * resource.getpagesize()
    return 8 << 30  # elsewhere than on Linux: what the libraries take, and more
