"""From an experiment, a frozen set of flat values, to a record: the only place that turns names into parts.

``Experiment → data → model → loss(β = schedule(step)) → train → logits → calibration → Record``
"""

from gdlib.experiment.cost import StepCost, measure_cost
from gdlib.experiment.cross_validation import CrossValidation, cross_validate
from gdlib.experiment.definition import DEVICES, Experiment, Run
from gdlib.experiment.methods import METHODS, method
from gdlib.experiment.objective import gd_loss
from gdlib.experiment.running import Finish, MeasureRuns, run

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
