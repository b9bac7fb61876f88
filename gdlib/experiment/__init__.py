"""From an experiment, a frozen set of flat values, to a record: the only place that turns names into parts.

``Experiment → data → model → loss(β = schedule(step)) → train → logits → calibration → Record``
"""

from gdlib.experiment.definition import DEVICES, Experiment, Run
from gdlib.experiment.objective import gd_loss
from gdlib.experiment.running import Finish, MeasureRuns, run

__all__ = ["DEVICES", "Experiment", "Finish", "MeasureRuns", "Run", "gd_loss", "run"]
