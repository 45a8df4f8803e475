"""Random programs at every way in, beside what they mean in NumPy: see docs/fuzz.md."""

from tvm_iree_ext.random_programs.drawing.generate import TYPES
from tvm_iree_ext.random_programs.trials.campaign import CampaignResult, recipes, run
from tvm_iree_ext.random_programs.trials.task import FAULTS, KINDS, Recipe, Setting

__all__ = ["FAULTS", "KINDS", "TYPES", "CampaignResult", "Recipe", "Setting", "recipes", "run"]
