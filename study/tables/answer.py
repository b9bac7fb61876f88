"""The advice of the first page: five questions, each answered from the records, with the page that shows it.

Words that depend on numbers are chosen by rules in this module, so that no sentence outlives its records.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from study.statistics import PairedDifference
from study.tables.measured import Setting, deciding
from study.verdicts import Verdict

_CLEAR = 0.005  # half a percentage point: a smaller gain is little reason to change a loss


@dataclass(frozen=True)
class Tally:
    """What a β did to a metric over several settings, against β = 1.

    Attributes:
        differences: setting by setting.
    """

    differences: Mapping[str, PairedDifference]

    @property
    def settings(self) -> int:
        """How many settings there are."""
        return len(self.differences)

    @property
    def higher(self) -> int:
        """In how many the whole 95 % interval lies above 0."""
        return sum(difference.interval.low > 0 for difference in self.differences.values())

    @property
    def lower(self) -> int:
        """In how many it lies below."""
        return sum(difference.interval.high < 0 for difference in self.differences.values())

    @property
    def means(self) -> list[float]:
        """The mean differences, from the smallest to the largest."""
        return sorted(difference.mean for difference in self.differences.values())


def tally(settings: Iterable[Setting], metric: str, beta: float) -> Tally:
    """Compare a β with β = 1 in every setting in which it was run."""
    found = {setting.name: setting.against_one(metric, beta) for setting in settings}
    return Tally({name: difference for name, difference in found.items() if difference is not None})


def advised_beta(settings: Sequence[Setting]) -> float:
    """The β other than 1 that lost least accuracy where it did worst, of those that were run in every setting.

    Raises:
        ValueError: if no β but 1 was run in every setting.
    """
    shared = set.intersection(*(set(setting.betas) for setting in settings)) - {1.0} if settings else set()
    if not shared:
        raise ValueError("no β but 1 was run in every setting")
    return max(shared, key=lambda beta: tally(settings, "test_accuracy", beta).means[0])


def at_one_speed(b1: Verdict) -> str:
    """What is left of β = 0.1 against 1 in accuracy where the size of the steps is the same, or the learning rate was chosen for each β.

    Args:
        b1: the verdict on B1; part d has the chosen rates, part b the steps of one size.

    Returns:
        Such as ``"with steps of one size β = 0.1 changed accuracy by −0.2 [−2.2, +1.9] points"``; empty without runs.
    """
    for part, words in (("d", "with the rate chosen for each β"), ("b", "with steps of one size")):
        findings = [finding for found in b1.parts if found.id == part for finding in found.deciding]
        differences = [leaf.difference for finding in findings for leaf in finding.leaves() if leaf.difference]
        if differences:
            told = sum(difference.interval.excludes(0) for difference in differences)
            several = (
                f"{span(sorted(one.mean for one in differences))} points, told apart from none in {told} of {len(differences)} settings"
            )
            return f"{words} β = 0.1 changed accuracy by " + (f"{points(differences[0])} points" if len(differences) == 1 else several)
    return ""


def answers(settings: Sequence[Setting], b1: Verdict) -> dict[str, str]:
    """Answer, in MyST, whether to use the loss, with which β, what it costs, when it hurts, and what to do instead.

    Args:
        settings: as :func:`study.tables.measured.settings` gives them; those that decide are taken.
        b1: the verdict on B1, whether β does more than a learning rate.

    Returns:
        A question and its answer, in the order in which a reader asks.
    """
    settings = deciding(settings)
    beta = advised_beta(settings)
    return {
        "Use it?": _use(tally(settings, "test_accuracy", beta), beta),
        "Which β?": _which(settings, beta),
        "What does it cost?": _cost(settings, beta),
        "When does it hurt?": _hurt(settings),
        "What instead?": _instead(settings, b1),
    }


def plain(text: str) -> str:
    """A sentence of MyST without its references, for README.md.

    Example:
        >>> plain("{ref}`the link <sec-calibration-link>` undoes it")
        'the link undoes it'
    """
    return re.sub(r"\{ref\}`([^<`]+?) <[^>`]+>`", r"\1", text)


def _use(found: Tally, beta: float) -> str:
    """Worth a trial, little reason, or no, by the median and by how many intervals exclude 0."""
    median = (found.means[(found.settings - 1) // 2] + found.means[found.settings // 2]) / 2
    if 2 * found.higher > found.settings and median > _CLEAR:
        verdict = "For accuracy it is worth a trial"
    elif 2 * found.lower > found.settings:
        verdict = "Not for accuracy"
    else:
        verdict = "For accuracy there is little reason"
    changed = f"{{ref}}`β = {beta:g} in place of 1 <sec-use-which>` changed it by {span(found.means)} percentage points"
    return f"{verdict}: {changed}; of {found.settings} settings it was higher in {found.higher}, lower in {found.lower}."


def _which(settings: Sequence[Setting], beta: float) -> str:
    others = [other for other in (0.01, 5.0) if other != beta and tally(settings, "test_accuracy", other).settings > 1]
    worst = {other: tally(settings, "test_accuracy", other).means[0] for other in (beta, *others)}
    lost = {other: f"{'lost' if mean < 0 else 'gained'} {abs(100 * mean):.1f}" for other, mean in worst.items()}
    compared = "".join(f", β = {other:g} {lost[other]}" for other in others)
    return f"{beta:g}, if any. {{ref}}`At worst <sec-use-which>` it {lost[beta]} points{compared}."


def _cost(settings: Sequence[Setting], beta: float) -> str:
    """Confidence before and after the link, where the images were augmented and where not."""
    recorded = [setting for setting in settings if not math.isnan(setting.mean("test_ece_link", beta))]
    augmented = [setting for setting in recorded if setting.augmented]
    others = [setting for setting in recorded if not setting.augmented]
    text = "{ref}`Too much confidence <sec-e11>`"
    if augmented:
        before, after = _repaired(augmented, beta)
        text += f": it and the accuracy differ by {before} % (calibration error)"
        text += f". {{ref}}`A formula <sec-calibration-link>` brings this to {after} %"
    if augmented and others:
        before, after = _repaired(others, beta)
        where = "without augmentation" if _halved(others, beta) else "but where the network {ref}`over-fits <sec-b2>` only"
        text += f", {where} from {before} to {after} %"
    return text + "."


def _halved(settings: Sequence[Setting], beta: float) -> bool:
    """Whether the link takes at least half of the calibration error everywhere."""
    return all(setting.mean("test_ece_link", beta) <= setting.mean("test_ece", beta) / 2 for setting in settings)


def _repaired(settings: Sequence[Setting], beta: float) -> tuple[str, str]:
    return per_cent(settings, "test_ece", beta), per_cent(settings, "test_ece_link", beta)


def _hurt(settings: Sequence[Setting]) -> str:
    """The smallest β on raw pixels, which are large steps of the first layer, where it did worst."""
    beta = min(setting.betas[0] for setting in settings)
    raw = tally([setting for setting in settings if setting.recipe.endswith("pixels 0 to 255")], "test_accuracy", beta).means
    if not raw or raw[0] >= 0:
        return "No setting here shows a loss of accuracy at the smallest β."
    lost = f"{{ref}}`cost up to {-100 * raw[0]:.1f} points <sec-unsaid>`"
    return f"A very small β with {{ref}}`large steps <sec-input-scale>` loses samples: on pixels from 0 to 255 β = {beta:g} {lost}."


def _instead(settings: Sequence[Setting], b1: Verdict) -> str:
    speed = at_one_speed(b1)
    text = "First {ref}`tune the learning rate <sec-use-rate>`" + (f": {speed}" if speed else "") + "."
    fitted = [setting for setting in settings if not math.isnan(setting.mean("test_ece_temperature", 1.0))]
    if fitted:
        error = per_cent(fitted, "test_ece_temperature", 1.0)
        text += f" For probabilities to rely on, {{ref}}`fit a temperature <sec-e12>` at β = 1 (calibration error {error} %)."
    return text


def points(difference: PairedDifference) -> str:
    """A difference of accuracies in percentage points, with its interval."""
    mean, low, high = map(_signed, (difference.mean, difference.interval.low, difference.interval.high))
    return f"{mean} [{low}, {high}]"


def per_cent(settings: Sequence[Setting], metric: str, beta: float) -> str:
    """The means of a metric over several settings, in per cent: one number, or the smallest and the largest."""
    means = sorted(100 * setting.mean(metric, beta) for setting in settings)
    low, high = f"{means[0]:.1f}", f"{means[-1]:.1f}"
    return low if low == high else f"{low}–{high}"


def span(means: Sequence[float]) -> str:
    """The smallest and the largest of several differences of accuracy, in percentage points, with their signs."""
    low, high = _signed(means[0]), _signed(means[-1])
    return low if low == high else f"{low} to {high}"


def _signed(share: float) -> str:
    text = f"{100 * share:+.1f}".replace("-", "−")
    return "0.0" if text in ("+0.0", "−0.0") else text
