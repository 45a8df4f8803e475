"""What a kernel costs beside its run time: memory, building, importing, calling."""

import os
import statistics
import subprocess
import sys
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm_ffi

from tvm_iree_ext import ops
from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.bench.measure.footprint import extra_bytes
from tvm_iree_ext.building import kernel_build
from tvm_iree_ext.runtime import cache
from tvm_iree_ext.runtime.artifact import LIBRARY

MEMORY_SHAPE = (1, 16, 2048, 128)
TINY_SHAPE = (1, 1, 1, 16)
_BUILD_SHAPE = (1, 8, 1024, 64)

_IMPORT = """
import time
start = time.perf_counter()
import tvm
after_tvm = time.perf_counter()
import tvm_iree_ext
after_package = time.perf_counter()
tvm_iree_ext.build, tvm_iree_ext.ops
end = time.perf_counter()
print(after_tvm - start, after_package - after_tvm, end - after_package)
"""
_BUILD = f"""
import time
start = time.perf_counter()
import tvm_iree_ext as ext
shape = {_BUILD_SHAPE}
op = ext.ops.attention(shape, shape, shape)
after_import = time.perf_counter()
ext.build(op)
print(after_import - start, time.perf_counter() - after_import)
"""


@dataclass(frozen=True)
class Memory:
    """Peak bytes of a call at ``MEMORY_SHAPE`` in float32, beyond operands and result."""

    threads: int
    extra_bytes: int

    @property
    def bytes_per_thread(self) -> float:
        """An equal share for each thread."""
        return self.extra_bytes / self.threads


@dataclass(frozen=True)
class Costs:
    """Medians, in the units of the names.

    Attributes:
        memory: for each number of threads.
        build_fresh_seconds: of a kernel that is not cached, the first in a process.
        build_warm_seconds: likewise, in a process that has built another.
        build_cached_fresh_seconds: of a cached kernel, the first in a process.
        build_cached_warm_seconds: of a cached kernel, again in the same process.
        import_tvm_seconds: of ``import tvm``.
        import_package_seconds: what ``import tvm_iree_ext`` adds to that.
        import_builder_seconds: what is then loaded by the first use of ``build`` and ``ops``.
        call_bare_us: of TVM's own call of a tiny kernel's function, with NumPy arrays.
        call_out_us: of calling that kernel with ``out=``.
        call_us: of calling it, with a new result each time.
    """

    memory: list[Memory]
    build_fresh_seconds: float
    build_warm_seconds: float
    build_cached_fresh_seconds: float
    build_cached_warm_seconds: float
    import_tvm_seconds: float
    import_package_seconds: float
    import_builder_seconds: float
    call_bare_us: float
    call_out_us: float
    call_us: float


def measure_costs(
    threads: Sequence[int], repeats: int = 5, progress: Callable[[str], None] = lambda _: None
) -> Costs:
    """All of them; about half a minute with 5 repeats.

    Raises:
        BuildError: where one of the processes that are started fails.
    """
    progress("memory of a call")
    kernel = kernel_build.build(ops.attention(MEMORY_SHAPE, MEMORY_SHAPE, MEMORY_SHAPE))
    memory = [Memory(count, extra_bytes(kernel.folder, count)) for count in threads]
    progress("import")
    imports = [_in_new_process(_IMPORT) for _ in range(repeats)]
    progress("build")
    fresh, cached = [], []
    for _ in range(repeats):
        with scratch() as place:
            fresh.append(_in_new_process(_BUILD, str(place))[1])
            cached.append(_in_new_process(_BUILD, str(place))[1])
    warm, again = _builds_here(repeats)
    progress("call")
    bare, out, allocating = _call_us()
    return Costs(
        memory=memory,
        build_fresh_seconds=statistics.median(fresh),
        build_warm_seconds=statistics.median(warm),
        build_cached_fresh_seconds=statistics.median(cached),
        build_cached_warm_seconds=statistics.median(again),
        import_tvm_seconds=statistics.median(one[0] for one in imports),
        import_package_seconds=statistics.median(one[1] for one in imports),
        import_builder_seconds=statistics.median(one[2] for one in imports),
        call_bare_us=bare,
        call_out_us=out,
        call_us=allocating,
    )


def _in_new_process(code: str, cache_folder: str | None = None) -> list[float]:
    """The numbers that ``code`` prints."""
    environment = dict(os.environ)
    if cache_folder is not None:
        environment[cache.VARIABLE] = cache_folder
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise BuildError(f"cannot measure build and import: {' '.join(last)}")
    return [float(number) for number in done.stdout.split()]


def _builds_here(repeats: int) -> tuple[list[float], list[float]]:
    """Seconds of builds that are not cached, and that are."""
    op = ops.attention(_BUILD_SHAPE, _BUILD_SHAPE, _BUILD_SHAPE)
    before = os.environ.get(cache.VARIABLE)
    warm, again = [], []
    try:
        for _ in range(repeats):
            with scratch() as place:
                os.environ[cache.VARIABLE] = str(place)
                warm.append(timeit.timeit(lambda: kernel_build.build(op), number=1))
                again.append(timeit.timeit(lambda: kernel_build.build(op), number=1))
    finally:
        if before is None:
            del os.environ[cache.VARIABLE]
        else:
            os.environ[cache.VARIABLE] = before
    return warm, again


def _call_us() -> tuple[float, float, float]:
    """A bare TVM call, a kernel's call with ``out=``, and one that allocates; in turns."""
    kernel = kernel_build.build(ops.attention(TINY_SHAPE, TINY_SHAPE, TINY_SHAPE))
    bare = tvm_ffi.load_module(Path(kernel.folder) / LIBRARY)[kernel.manifest.entry]
    query, key, value, out = (np.ones(TINY_SHAPE, np.float32) for _ in range(4))
    calls = (
        lambda: bare(query, key, value, out),
        lambda: kernel(query, key, value, out=out),
        lambda: kernel(query, key, value),
    )
    count = 2000
    rounds = [[timeit.timeit(call, number=count) for call in calls] for _ in range(15)]
    medians = [statistics.median(one) / count * 1e6 for one in zip(*rounds, strict=True)]
    return medians[0], medians[1], medians[2]
