"""What the first page and README say of the results: ``python -m study.headline`` writes it."""

from __future__ import annotations

import argparse
import math
import re
import tomllib

import numpy as np
import pandas as pd
import yaml

from study import ROOT, ledger, outcomes
from study.compare import compare

README = ROOT / "README.md"
VARIANT = ["dataset", "model", "augmentation", "width"]


def image_runs() -> pd.DataFrame:
    """Read the runs on CIFAR-10 and CIFAR-100 at the usual learning rate of each network."""
    runs = outcomes.read(*ledger.listed("papers-images"))
    return runs[runs["loss"].isna() | runs["loss"].eq("gd")]


def against_one(runs: pd.DataFrame, metric: str, beta: float) -> pd.Series[float]:
    """Compare a β with β = 1 in every variant: the differences, in points."""
    found = compare(runs, metric, {"beta": beta}, {"beta": 1}, variant=VARIANT)
    return 100 * found["difference"].dropna()


def sentences() -> list[str]:
    """Say in five sentences what came out; every number is computed."""
    runs = image_runs()
    small, large = runs[runs["model"].eq("fast")], runs[runs["model"].eq("resnet18")]
    of_cifar100 = small[small["dataset"].eq("cifar100")]
    below = pd.concat([against_one(small, "test_accuracy", beta) for beta in (0.01, 0.1)])
    five, twenty = (-against_one(small, "test_accuracy", beta) for beta in (5, 20))
    top5 = against_one(of_cifar100, "test_top5_accuracy", 5)
    of_resnet = [-against_one(large, "test_accuracy", beta).item() for beta in (5, 20)]
    cells = outcomes.law(runs, [*VARIANT, "learning_rate"])
    away = cells[cells["beta"] != 1]
    error = np.sqrt(((away["measured"] - away["predicted"]) ** 2).mean())
    calibrated = outcomes.calibrated(cells, VARIANT)
    slow = 100 * leads_at_one_rate()["difference"].loc[["learning rate 0.05", "learning rate 0.1"]]
    leads = leads_at_own_rates()
    return [
        "**β changes how sure a network is, far more than how often it is right.** It adds log β "
        "to the true logit; a formula gives the effect on confidence.",
        "**Accuracy:** on CIFAR-10 and CIFAR-100, at one learning rate, a small network with "
        f"β = 0.1 or 0.01 is within {rounded_up(below.abs().max()):.1f} points of the "
        f"cross-entropy. β = 5 costs up to {five.max():.1f} points of top-1 "
        f"({of_resnet[0]:.1f} with ResNet18) and gains up to {top5.max():.1f} of top-5 on "
        f"CIFAR-100, but not with ResNet18. β = 20 costs {twenty.min():.1f} to "
        f"{twenty.max():.1f} ({of_resnet[1]:.1f} with ResNet18).",
        "**Over-confidence** is the shift given by this formula plus what is due to over-fitting, "
        f"which depends far less on β ({error:.0f} points rms on CIFAR). So the β that calibrates "
        f"ranged from {calibrated.min():.1f} to {calibrated.max():.0f}; a temperature fitted to "
        "β = 1 did as well or better.",
        "**Speed** is most of what a small β gains on MNIST with pixels from 0 to 1: the "
        "cross-entropy with ten times the learning rate does as well or better.",
        "**None of the top-1 gains from β** that the papers report on CIFAR was reproduced at the "
        f"usual learning rate. On CIFAR-10, β = 0.1 led β = 1 by {slow.min():.1f} to "
        f"{slow.max():.1f} points at half and a quarter of that rate, and barely "
        f"({min(leads):.1f} to {max(leads):.1f}) with a rate chosen for each.",
    ]


def rounded_up(points: float) -> float:
    """Round up to a tenth, for what lies *within* a number of points."""
    return math.ceil(10 * points) / 10


def leads_at_one_rate() -> pd.DataFrame:
    """Compare β = 0.1 with β = 1 on CIFAR-10 at each learning rate that both have."""
    sides = {"beta": 0.1}, {"beta": 1}
    return compare(rates_on_cifar10(), "test_accuracy", *sides, variant=["learning_rate"])


def leads_at_own_rates() -> list[float]:
    """Compare β = 0.1, at the rate that held-out images say, with β = 1 on CIFAR-10, in points.

    For β = 1 they say 0.1 and 0.2 alike: there is a lead over each.
    """
    runs = rates_on_cifar10()
    own = {"beta": 0.1, "learning_rate": [0.05, 0.1, 0.2, 0.4], "by": "valid_accuracy"}
    others = [{"beta": 1, "learning_rate": rate} for rate in (0.1, 0.2)]
    found = [compare(runs, "test_accuracy", own, other) for other in others]
    return [100 * one["difference"].item() for one in found]


def rates_on_cifar10() -> pd.DataFrame:
    """Read the runs on CIFAR-10 with crops at several learning rates."""
    where = "augmentation == 'crop2-flip' and not match_gradient and lr_schedule == 'one-cycle'"
    return outcomes.read("cifar", "cifar10-rates").query(f"dataset == 'cifar10' and {where}")


def readme() -> str:
    """Give README.md with what stands between its marks: the sentences, and the installation."""
    text = README.read_text(encoding="utf-8")
    text = _between(text, "headline", "\n".join(f"- {line}" for line in sentences()))
    return _between(text, "install", f"```bash\n{install()}\n```")


def install() -> str:
    """Write the line that installs the package, as a reader can type it.

    The address is ``repository: {url: ...}`` in ``_config.yml``, the name that of
    ``pyproject.toml``; where there is no address, the line is for a clone.
    """
    book = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    address = str(book["repository"]["url"] or "").rstrip("/")
    if not address:
        return "# in a clone of this repository\npip install ."
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return f'pip install "{project["name"]} @ git+{address}"'


def _between(text: str, name: str, content: str) -> str:
    """Put content between the marks of this name."""
    begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
    whole = f"{begin}\n{content}\n\n{end}"
    return re.sub(f"{begin}.*?{end}", lambda _: whole, text, flags=re.DOTALL)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    README.write_text(readme(), encoding="utf-8")
