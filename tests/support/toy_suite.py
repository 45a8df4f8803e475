"""A suite whose cases end in every way; ``seed`` is what the right one gives."""

import os
import time

import numpy as np

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.conformance.judging import judged
from tvm_iree_ext.conformance.outcomes import SuiteCase


class ToySuite:
    def __init__(self, seed):
        self._seed = seed

    def cases(self):
        names = ("right", "wrong", "refused", "broken", "crashed", "slow", "skipped")
        return [
            SuiteCase(name, name.capitalize(), "int32", "strings" if name == "skipped" else "")
            for name in names
        ]

    def run(self, case):
        if case.name == "refused":
            raise OpError("toy: operand 3 is of 'f4'\nmore")
        if case.name == "broken":
            np.zeros(3).reshape(2)
        if case.name == "crashed":
            os._exit(5)
        if case.name == "slow":
            time.sleep(3600)
        return judged([np.array([1, 2])], [np.array([1, 2 if case.name == "right" else 7])])


def suite(seed):
    return ToySuite(seed)
