"""From an experiment, a frozen set of flat values, to a record: the only place that turns names into parts.

``Experiment → data → model → loss(β = schedule(step)) → train → logits → calibration → Record``
"""

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
    "cross_validate",
    "gd_loss",
    "method",
    "of_template",
    "run",
]

TEMPLATES: dict[str, type[Experiment] | type[CrossValidation]] = {"cross-validation": CrossValidation}
"""The notebooks whose parameters are not those of :class:`Experiment`."""


def of_template(name: str) -> type[Experiment] | type[CrossValidation]:
    """What the parameters of a notebook of ``notebooks/experiments`` describe."""
    return TEMPLATES.get(name, Experiment)
