"""The archive on the machine with the GPU: its cases, and their files.

__main__.py, tvm_iree_ext/   what runs there
formats.npz                  the values of types that NumPy lacks, by their bits
checks/0007/                 a check: an artifact, case.json, operands.npz, results.npz
speed/0003/                  a kernel to be timed: an artifact, case.json
peaks/0000/                  what the chip reaches at most: an artifact, case.json
programs/gpt2_block/         a whole program to be timed: the same as a check, and raw.npz
"""

import functools
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

CHECKS, PEAKS, SPEED, PROGRAMS = "checks", "peaks", "speed", "programs"


class ArchiveFile:
    """An archive that is open for reading."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._file = zipfile.ZipFile(self.path)

    def cases(self, section: str) -> dict[str, Mapping[str, Any]]:
        """What stands in ``case.json`` of each case of a section, by the case's folder."""
        names = [name for name in self._file.namelist() if name.startswith(f"{section}/")]
        return {
            name.rpartition("/")[0]: json.loads(self._file.read(name))
            for name in sorted(names)
            if name.endswith("/case.json")
        }

    def case(self, folder: str) -> Mapping[str, Any]:
        """What stands in a case's ``case.json``."""
        return json.loads(self._file.read(f"{folder}/case.json"))

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of an ``.npz``, by name."""
        with np.load(io.BytesIO(self._file.read(name)), allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}

    def extract(self, folder: str, place: Path) -> Path:
        """A case's files in a folder of their own below ``place``."""
        for name in self._file.namelist():
            if name.startswith(f"{folder}/"):
                self._file.extract(name, place)
        return place / folder

    @functools.cached_property
    def _values(self) -> dict[str, np.ndarray]:
        return self.arrays("formats.npz")

    def as_numbers(self, words: np.ndarray, dtype: str) -> np.ndarray:
        """An array whose elements are numbers of NumPy's, by the name of its type."""
        if dtype == "bfloat16":
            return (words.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        if dtype in self._values:
            return self._values[dtype][words.view(np.uint8)]
        if dtype == "complex128":
            return words.view(dtype)[..., 0]
        if dtype == "complex64":
            return words.view(dtype)
        return words.view(np.bool_) if dtype == "bool" else words
