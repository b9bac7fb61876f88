"""P1: a cross-validation on a small table as one stacked training, against its trainings one after another in a plain PyTorch loop.

A network 4-16-16-3 with batches of 16, as in ArcGrad's Table I: 100 trainings (ten runs of ten folds) in a stack, and a few of them one by
one. Both ways do the same steps and take turns; the medians of the ratios of each turn, per run and step, are printed. Times are processor
times of this one thread.
"""

from __future__ import annotations

import os
import platform
import statistics
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gdlib.experiment import method
from gdlib.experiment.cross_validation import order_of_parts
from gdlib.functional import gd_cross_entropy
from gdlib.losses import AdaCosLoss, ArcGradLoss
from gdlib.models import HeadedMLP
from gdlib.train import train

RUNS, SAMPLES, BATCH, EPOCHS, TURNS, ALONE = 100, 135, 16, 5, 5, 2


def stacked(text: str, inputs: Tensor, labels: Tensor) -> None:
    chosen = method(text)
    model = HeadedMLP([4, 16, 16, 3], seeds=range(RUNS), head=chosen.head)
    order = order_of_parts([torch.randperm(len(inputs))[:SAMPLES] for _ in range(RUNS)], range(RUNS))
    options = {"epochs": EPOCHS, "batch_size": BATCH, "learning_rate": 0.1, "momentum": 0.9}
    train(model, chosen.loss(3), lambda step: [1.0] * RUNS, inputs, labels, order=order, **options)


def one_by_one(text: str, inputs: Tensor, labels: Tensor) -> None:
    losses = {
        "softmax": F.cross_entropy,
        "gd 0.1": lambda z, y: gd_cross_entropy(z, y, 0.1),
        "arcgrad 5": ArcGradLoss(5.0),
        "adacos": AdaCosLoss(3),
    }
    cosine, loss_fn = method(text).head == "cosine", losses[text]
    for _ in range(ALONE):
        body = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        head = nn.Linear(16, 3, bias=False)
        optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
        for _ in range(EPOCHS):
            for chosen in torch.randperm(SAMPLES).split(BATCH):
                optimizer.zero_grad()
                features = body(inputs[chosen])
                output = F.linear(F.normalize(features), F.normalize(head.weight)) if cosine else head(features)
                loss_fn(output, labels[chosen]).backward()
                optimizer.step()


def main() -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    inputs, labels = torch.rand(150, 4, generator=generator), torch.randint(0, 3, (150,), generator=generator)
    steps = EPOCHS * -(-SAMPLES // BATCH)
    for text in ("softmax", "gd 0.1", "arcgrad 5", "adacos"):
        times: dict[str, list[float]] = {"stacked": [], "plain": []}
        for turn in range(TURNS + 1):
            for name, way, runs in (("stacked", stacked, RUNS), ("plain", one_by_one, ALONE)):
                start = time.process_time()
                way(text, inputs, labels)
                if turn > 0:  # the first turn warms up
                    times[name].append((time.process_time() - start) / (runs * steps) * 1e6)
        ratios = sorted(slow / fast for slow, fast in zip(times["plain"], times["stacked"], strict=True))
        both = ", ".join(f"{name} {statistics.median(values):.1f}" for name, values in times.items())
        print(f"P1 {text}: {statistics.median(ratios):.0f} times faster (turns: {ratios[0]:.0f} to {ratios[-1]:.0f})")
        print(f"   µs per run and step: {both}")
    print(f"{RUNS} runs in a stack; torch {torch.__version__}, {platform.machine()}, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
