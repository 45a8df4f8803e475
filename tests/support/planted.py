"""Faults in place of a trial, for processes that import neither the tests nor TVM."""

import os
import time

from tvm_iree_ext.random_programs.drawing.generate import random_web
from tvm_iree_ext.random_programs.drawing.vocabulary import TABLE
from tvm_iree_ext.random_programs.trials.task import Recipe, TrialOutcome


def crash(task):
    """What has a reverse ends the process."""
    if "reverse" in web(task).ops():
        os.abort()
    return TrialOutcome("right", "", web(task))


def hang(task):
    time.sleep(60)


def web(task):
    recipe = task.program
    if not isinstance(recipe, Recipe):
        return recipe
    return random_web(recipe.seed, recipe.dtype, ops=TABLE, most=recipe.most)


def script(task):
    return "# " + ", ".join(web(task).ops())
