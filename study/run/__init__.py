"""From a setting to a record: data → model → loss(β = schedule(step)) → train → logits → measures."""

from study.run.cost import measure_cost
from study.run.cross_validation import cross_validate, order_of_parts
from study.run.job import device_of
from study.run.training import Finish, MeasureRuns, train_stack

__all__ = ["Finish", "MeasureRuns", "cross_validate", "device_of", "measure_cost", "order_of_parts", "train_stack"]
