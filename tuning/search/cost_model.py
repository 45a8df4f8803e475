"""Cost model of candidates: gradient-boosted trees over the numbers of their configs."""

import importlib.util
import math
from typing import Any, Literal

import numpy as np
from tvm import runtime
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.schedules.base.space import TuningSpace
from tvm_iree_ext.tuning.search.trace_carrier import Carrier

Model = Literal["xgboost", "random", "none"]
"""Trees; evolution by chance; no evolution either: every candidate is drawn anew."""

_WARM_UP = 12  # candidates that are tried before the model is asked

# A config is some ten numbers, of which some hundred are measured: small trees, soon enough.
_DEPTH, _ETA, _PATIENCE = 5, 0.3, 10

_TILES = ("workgroup_tile", "reduction_tile", "register_tile", "subgroups")


def features(space: TuningSpace, config: LoweringConfig) -> list[float]:
    """A config as numbers: those that may be chosen, and what tiles multiply to, as logarithms."""
    names = dict.fromkeys(choice.name for form in space.forms for choice in form.choices)
    found: list[float] = []
    for name in names:
        kinds = {
            value
            for form in space.forms
            for choice in form.choices
            if choice.name == name
            for value in choice.values
            if not isinstance(value, int)
        }
        value = config.value(name)
        if kinds:  # one column for each word, or name of an operand
            words = sorted({word for kind in kinds for word in _words(kind)})
            found += [float(word in _words(value)) for word in words]
        else:
            found.append(math.log2(1 + value) if isinstance(value, int) else -1.0)
    algorithms = sorted({form.base.algorithm for form in space.forms})
    if len(algorithms) > 1:
        found += [float(config.algorithm == one) for one in algorithms]
    volumes = (math.prod(getattr(config, field).values()) for field in _TILES)
    found += [math.log2(max(1, volume * config.vector_lanes)) for volume in volumes]
    return found


def _words(value: Any) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (str(value),)


def make_model(kind: Model, carrier: Carrier, seed: int) -> Any:
    """MetaSchedule's cost model; None where there is to be none."""
    if kind == "none":
        return None
    if kind == "random":
        return ms.cost_model.RandomModel(seed=seed)
    if importlib.util.find_spec("xgboost") is None:
        raise TuningError(
            "the cost model needs xgboost: pip install 'tvm-iree-ext[tuning]', or choose another"
            " model: random or none"
        )
    from tvm.s_tir.meta_schedule.cost_model.xgb_model import XGBConfig

    @derived_object
    class Extractor(ms.feature_extractor.PyFeatureExtractor):
        def extract_from(self, context: Any, candidates: list[Any]) -> list[Any]:
            space = carrier.space
            configs = (space.config(carrier.point(one.sch)) for one in candidates)
            return [runtime.tensor(np.array([features(space, c)], "float32")) for c in configs]

    return ms.cost_model.XGBModel(
        extractor=Extractor(),
        # One thread: what is built and run meanwhile needs the others.
        config=XGBConfig(max_depth=_DEPTH, eta=_ETA, seed=seed, nthread=1),
        num_warmup_samples=_WARM_UP,
        early_stopping_rounds=_PATIENCE,
        verbose_eval=0,
    )
