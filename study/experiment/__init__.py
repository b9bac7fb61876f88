"""From an experiment, a frozen set of flat values, to a record: the only place that turns names into parts.

``Experiment → data → model → loss(β = schedule(step)) → train → logits → calibration → Record``
"""

from study.experiment.cost import StepCost, measure_cost
from study.experiment.cross_validation import CrossValidation, cross_validate
from study.experiment.definition import DEVICES, Experiment, Run
from study.experiment.methods import METHODS, method
from study.experiment.objective import gd_loss
from study.experiment.running import Finish, MeasureRuns, run

__all__ = [
    "DEVICES",
    "METHODS",
    "TEMPLATES",
    "CrossValidation",
    "Experiment",
    "Finish",
    "MeasureRuns",
    "Run",
    "StepCost",
    "cross_validate",
    "gd_loss",
    "measure_cost",
    "method",
    "of_template",
    "run",
]

Setting = Experiment | CrossValidation | StepCost
"""What the parameters of a notebook can describe."""

TEMPLATES: dict[str, type[Setting]] = {"cross-validation": CrossValidation, "cost": StepCost}
"""The notebooks whose parameters are not those of :class:`Experiment`."""


def of_template(name: str) -> type[Setting]:
    """What the parameters of a notebook of ``notebooks/experiments`` describe."""
    return TEMPLATES.get(name, Experiment)
