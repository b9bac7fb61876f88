"""What the first page and README say of the results: ``python -m study.headline`` writes it."""

from __future__ import annotations

import argparse
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
    small = runs[runs["model"].eq("fast")]
    of_cifar100 = small[small["dataset"].eq("cifar100")]
    below = pd.concat([against_one(small, "test_accuracy", beta) for beta in (0.01, 0.1)])
    five, twenty = (-against_one(small, "test_accuracy", beta) for beta in (5, 20))
    top5 = against_one(of_cifar100, "test_top5_accuracy", 5)
    cells = outcomes.law(small, [*VARIANT, "learning_rate"])
    away = cells[cells["beta"] != 1]
    error = np.sqrt(((away["measured"] - away["predicted"]) ** 2).mean())
    calibrated = outcomes.calibrated(cells, VARIANT)
    large = runs[runs["model"].eq("resnet18")]
    also = " and a ResNet18 of 30" if len(large) else ""
    return [
        "**β changes how sure a network is, and hardly how often it is right.** It adds log β to "
        "the true logit of the cross-entropy; a known formula says what that does to confidence.",
        "**Accuracy:** on CIFAR-10 and CIFAR-100, a small network with a β from 0.01 to 1 is "
        f"within {below.abs().max():.1f} points of the cross-entropy. β = 5 costs "
        f"{five.min():.1f} to {five.max():.1f} points of top-1 accuracy and gains "
        f"{top5.min():.1f} to {top5.max():.1f} of top-5 on CIFAR-100; β = 20 costs "
        f"{twenty.min():.1f} to {twenty.max():.1f}, on networks that have then fitted less.",
        "**Over-confidence** is that formula plus what the network over-fits, with an rms error of "
        f"{error:.0f} points. So the β that calibrates was anything from {calibrated.min():.1f} "
        f"to {calibrated.max():.0f}; a fitted temperature does better almost everywhere and costs "
        "no accuracy.",
        "**Speed** is most of what a small β gains on MNIST; ten times the learning rate gives it "
        "as well.",
        "**None of the papers' gains** in top-1 accuracy on CIFAR was reproduced at equal learning "
        f"rates, on small networks of 12 to 40 epochs{also}.",
    ]


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
