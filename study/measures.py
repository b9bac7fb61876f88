"""What is measured of a stack.

Measured are scores, confidences, calibration before and after post-processing, single samples, and
distances and angles of features.

Features have the shape ``[R, N, D]``, or ``[N, D]`` of one run; the runs share their labels
``[N]``. Distances and angles are computed in float64. Distances depend on the scale of the
features, which a network is free to choose: compare runs by quotients of them or by angles, which
are about the origin.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib import calibration
from study import data
from study.published import FIFTHS

_MANY_CLASSES = 10  # with more classes than this the top-5 accuracy says something
_GROUPS = 5  # of samples, by their difficulty


def scores(logits: Tensor, labels: Tensor, name: str) -> dict[str, Tensor]:
    """Compute the scores of every run, ``[R]``, from logits ``[R, N, C]``.

    They are accuracy, plain cross-entropy and mean margin bias; with many classes top-5 too.
    """
    correct = (logits.argmax(2) == labels).double().mean(1)
    cross_entropy = torch.stack([F.cross_entropy(run_logits, labels) for run_logits in logits])
    bias = torch.stack([margin_bias(run_logits, labels).double().mean() for run_logits in logits])
    measured = {
        f"{name}_accuracy": correct,
        f"{name}_cross_entropy": cross_entropy,
        f"{name}_margin_bias": bias,
    }
    if logits.shape[2] > _MANY_CLASSES:
        among = (logits.topk(5, 2).indices == labels[None, :, None]).any(2)
        measured[f"{name}_top5_accuracy"] = among.double().mean(1)
    return measured


def margin_bias(input: Tensor, target: Tensor) -> Tensor:
    r"""Compute the bias that the cross-entropy adds to the margin of a sample.

    .. math::

        \hat\rho = \log \sum_{i \neq c} e^{z_i - z_{c^*}}, \qquad c^* = \arg\max_{i \neq c} z_i,
        \qquad 0 \le \hat\rho \le \log(C - 1)

    With it :math:`-\log p_c = \mathrm{softplus}(z_{c^*} - z_c + \hat\rho)`. It is largest where all
    wrong logits are alike.

    Args:
        input: logits ``[N, C]`` of at least two classes.
        target: class indices ``[N]``.

    Returns:
        The bias of every sample, ``[N]``.

    Example:
        >>> margin_bias(torch.tensor([[5.0, 1.0, 1.0, -50.0]]), torch.tensor([0]))  # log(1 + 1 + 0)
        tensor([0.6931])

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, eq. 4-7 and figure 3.
    """
    # finite in the place of the true class, so that masked ones have a bias too
    wrong = input.scatter(1, target.unsqueeze(1), torch.finfo(input.dtype).min / 4)
    return torch.logsumexp(wrong - wrong.amax(1, keepdim=True), 1)


def true_class_probability(logits: Tensor, labels: Tensor) -> Tensor:
    """:math:`p_c` ``[R, N]`` from logits ``[R, N, C]`` and class indices ``[N]``."""
    index = labels.expand(len(logits), -1).unsqueeze(2)
    return torch.softmax(logits, 2).gather(2, index).squeeze(2)


def final_measures(
    dataset: data.Dataset,
    scaled_logits: Callable[[data.Split], Tensor],
    betas: Sequence[float | None],
) -> list[dict[str, Any]]:
    """Measure the last epoch from the logits ``[R, N, C]`` over τ.

    It measures scores, how many training samples have which confidence (the papers' Table 1), and
    calibration.

    With a validation split, temperature and vector scaling are fitted on it, and their test metrics
    carry the suffixes ``_temperature`` and ``_vector``; those of the β link carry ``_link``.

    Args:
        dataset: the splits.
        scaled_logits: computes the logits of a split.
        betas: that of each run for the link; None for a loss without β, which has no link.
    """
    splits = {"train": dataset.train, "test": dataset.test, "valid": dataset.valid}
    logits = {
        name: scaled_logits(split).cpu() for name, split in splits.items() if split is not None
    }
    labels = {name: split.labels.cpu() for name, split in splits.items() if split is not None}
    measures: dict[str, Tensor] = {}
    for name in logits:
        measures |= scores(logits[name], labels[name], name)
    confidence = true_class_probability(logits["train"], labels["train"])
    finite = torch.stack([one.flatten(1).isfinite().all(1) for one in logits.values()]).all(0)
    final = []
    for run, (beta, whole) in enumerate(zip(betas, finite.tolist(), strict=True)):
        metrics = {name: float(values[run]) for name, values in measures.items()}
        if whole:
            test = logits["test"][run], labels["test"]
            valid = (logits["valid"][run], labels["valid"]) if "valid" in logits else None
            metrics |= _measured_run(confidence[run], test, valid, beta)
        final.append({"diverged": not whole, "metrics": metrics})
    return final


def _measured_run(
    confidence: Tensor,
    test: tuple[Tensor, Tensor],
    valid: tuple[Tensor, Tensor] | None,
    beta: float | None,
) -> dict[str, float]:
    """Measure one run beside its scores, from logits and labels of the two splits."""
    metrics: dict[str, float] = {"train_confidence": float(confidence.double().mean())}
    fifths = torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=confidence.dtype)  # upper edges: (lo, hi]
    counts = torch.bincount(torch.bucketize(confidence, fifths), minlength=5).tolist()
    metrics |= dict(zip(FIFTHS.values(), counts, strict=True))
    test_logits, test_labels = test[0].double(), test[1]
    probabilities = {"": torch.softmax(test_logits, 1)}
    if valid is not None:
        valid_logits, valid_labels = valid[0].double(), valid[1]
        metrics["valid_ece"] = calibration.expected_calibration_error(
            torch.softmax(valid_logits, 1), valid_labels
        )
        temperature, vector = calibration.TemperatureScaling(), calibration.VectorScaling()
        for suffix, scaling in (("_temperature", temperature), ("_vector", vector)):
            scaled = scaling.fit(valid_logits, valid_labels).transform(test_logits)
            metrics[f"test_nll{suffix}"] = float(F.cross_entropy(scaled, test_labels))
            probabilities[suffix] = torch.softmax(scaled, 1)
        metrics["scaling_temperature"] = temperature.temperature
        if beta is not None:
            linked = calibration.beta_link(probabilities[""], beta)
            probabilities["_link"] = linked
            metrics["test_nll_link"] = calibration.negative_log_likelihood(linked, test_labels)
    for suffix, values in probabilities.items():
        metrics |= {
            f"test_confidence{suffix}": float(values.amax(1).mean()),
            f"test_ece{suffix}": calibration.expected_calibration_error(values, test_labels),
        }
    return metrics


def class_accuracies(predictions: Tensor, labels: Tensor) -> Tensor:
    """Compute the accuracy of each class, ``[R, C]``, from predicted classes ``[R, N]``.

    Example:
        >>> class_accuracies(torch.tensor([[0, 1, 1, 1]]), torch.tensor([0, 0, 1, 1])).tolist()
        [[0.5, 1.0]]
    """
    of_class = F.one_hot(labels).double()  # (N, C)
    return (predictions == labels).double() @ of_class / of_class.sum(0)


# --- single samples through the epochs ---


def followed_samples(samples: int, count: int) -> Tensor:
    """Choose ``count`` of the samples in ascending order.

    They are always the same ones, drawn with seed 0.
    """
    return torch.randperm(samples, generator=torch.Generator().manual_seed(0))[:count].sort().values


def epoch_learnt(confidences: Tensor) -> Tensor:
    """Find the first epoch after which the confidence exceeds 0.5, from ``[..., E, N]``.

    It is E for a sample that never does.

    Example:
        >>> epoch_learnt(torch.tensor([[0.1, 0.2], [0.6, 0.3], [0.9, 0.4]])).tolist()
        [1, 3]
    """
    learnt = confidences > 0.5
    return torch.where(learnt.any(-2), learnt.to(torch.int8).argmax(-2), confidences.shape[-2])


def difficulty_groups(final_confidence: Tensor) -> Tensor:
    """Cut samples into five groups of (nearly) equal size by their last confidence ``[N]``.

    The groups are counted from 0, the hardest.

    Example:
        >>> difficulty_groups(torch.tensor([0.9, 0.1, 0.5, 0.7, 0.3])).tolist()
        [4, 0, 2, 3, 1]
    """
    rank = final_confidence.argsort(stable=True).argsort()
    return rank * _GROUPS // len(final_confidence)


def product_with_average(inputs: Tensor, labels: Tensor) -> Tensor:
    r"""Multiply each input ``[N, D]`` by the mean negative gradient at zero weights, ``[N]``.

    Each input is taken with a 1 for the bias.

    At zero weights the negative gradient of every loss of the gradient-decay family has one
    direction, :math:`A_c = \sum_{n: c_n = c} x_n - \frac{1}{C-1} \sum_{n: c_n \neq c} x_n` for the
    row of class c. The product is :math:`b_n = \frac1N (A_{c_n} \cdot x_n - \frac{1}{C-1}
    \sum_{j \neq c_n} A_j \cdot x_n)`: how fast the log-odds of the true class begin to grow. With
    two classes it is twice the product of the signed sample with the average of the signed samples.

    Example:
        Three samples of two classes on a line; the last one lies on the side of the other class:

        >>> product_with_average(torch.tensor([[2.0], [-1.0], [1.0]]), torch.tensor([0, 1, 1]))
        tensor([ 2.0000,  2.0000, -0.6667], dtype=torch.float64)
    """
    classes = int(labels.max()) + 1
    if classes < 2:
        raise ValueError("two classes or more expected; all labels are 0")
    x = torch.cat([inputs.double(), torch.ones(len(inputs), 1, dtype=torch.float64)], 1)
    signs = torch.full((len(x), classes), -1.0 / (classes - 1), dtype=torch.float64)
    signs[torch.arange(len(x)), labels] = 1.0
    descent = signs.T @ x / len(x)
    return ((x @ descent.T) * signs).sum(1)


def in_conflict(inputs: Tensor, labels: Tensor) -> Tensor:
    """Tell which samples are in conflict with the average, ``[N]``.

    They are those whose product by :func:`product_with_average` is negative.

    Example:
        >>> in_conflict(torch.tensor([[2.0], [-1.0], [1.0]]), torch.tensor([0, 1, 1]))
        tensor([False, False,  True])
    """
    return product_with_average(inputs, labels) < 0


def conflict_summaries(confidences: Tensor, conflict: Tensor) -> list[dict[str, Any]]:
    """Summarise when samples in conflict are learnt, and when the others are.

    ``conflict`` is ``[N]`` (bool), ``confidences`` ``[R, E, N]``.

    ``conflict_late`` is the share of pairs, of one sample in conflict and one of the others, in
    which that in conflict is learnt later; a tie counts one half. ``others_epoch`` is the mean
    epoch at which the others are learnt. Where either sort is missing, there is neither.
    """
    epochs = confidences.shape[1]
    kept = []
    for learnt in epoch_learnt(confidences):
        late, others = (
            torch.bincount(learnt[chosen], minlength=epochs + 1).double()
            for chosen in (conflict, ~conflict)
        )
        summary = {"conflict_share": conflict.double().mean().item()}
        if late.sum() > 0 and others.sum() > 0:
            earlier = others.cumsum(0) - others / 2  # others learnt before, and half of the ties
            number = torch.arange(epochs + 1, dtype=torch.float64)
            summary |= {
                "conflict_late": ((late * earlier).sum() / late.sum() / others.sum()).item(),
                "others_epoch": ((number * others).sum() / others.sum()).item(),
            }
        kept.append(summary)
    return kept


def confidence_summaries(
    confidences: Tensor, seeds: Sequence[int], betas: Sequence[float]
) -> list[dict[str, Any]]:
    """Summarise the confidences of a stack ``[R, E, N]`` for the rows of its runs.

    They were taken after 0 to E - 1 epochs.

    Samples are grouped by the run's own last confidence, and by that of the reference run: of the
    same seed, with β nearest to 1. ``never_learnt`` is the share of the samples that never are.
    """
    epochs = confidences.shape[1]
    kept = []
    for seed, values, learnt in zip(seeds, confidences, epoch_learnt(confidences), strict=True):
        reference = min(
            (run for run, other in enumerate(seeds) if other == seed),
            key=lambda run: abs(math.log(betas[run])),
        )
        groups = difficulty_groups(values[-1])
        reference_groups = difficulty_groups(confidences[reference, -1])
        kept.append(
            {
                "group_confidence": _group_means(values, groups),
                "reference_group_confidence": _group_means(values, reference_groups),
                "never_learnt": (learnt == epochs).double().mean().item(),
            }
        )
    return kept


def _group_means(values: Tensor, groups: Tensor) -> list[list[float]]:
    """Average the confidence of each group after each epoch, ``[E, N]``, to five lists of E."""
    return _rounded(
        torch.stack([values[:, groups == group].double().mean(1) for group in range(_GROUPS)])
    )


def _rounded(values: Tensor) -> list[list[float]]:
    return [[round(value, 4) for value in row] for row in values.tolist()]


# --- distances and angles of features ---


def class_centres(features: Tensor, labels: Tensor, n_classes: int = 0) -> Tensor:
    """Average the features of each class, ``[..., K, D]``.

    Every class from 0 to the largest label, or to ``n_classes`` - 1, needs a sample.

    Example:
        >>> features = torch.tensor([[-1.0, 0.0], [1.0, 0.0], [3.0, 4.0]])
        >>> class_centres(features, torch.tensor([0, 0, 1])).tolist()
        [[0.0, 0.0], [3.0, 4.0]]
    """
    if labels.shape != features.shape[-2:-1]:
        raise ValueError(
            f"labels must have the shape [{features.shape[-2]}] to go with features "
            f"{list(features.shape)}, not {list(labels.shape)}"
        )
    count = labels.bincount(minlength=n_classes)
    if len(count) < 2 or not count.all():
        raise ValueError(
            f"at least two classes, each with a sample, expected; the classes have {count.tolist()}"
        )
    x = features.detach().double()
    return torch.stack([x[..., labels == c, :].mean(-2) for c in range(len(count))], -2)


def distances(features: Tensor, labels: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Measure mean distances to the centre of a class, and those between two centres.

    The distance of the samples of a class to its centre is ``[..., K]``, those between two centres
    are ``[..., K (K - 1)]``.

    Example:
        Two samples at distance 1 from their centre (0, 0), and a class of one sample at (3, 4):

        >>> x, labels = torch.tensor([[-1.0, 0.0], [1.0, 0.0], [3.0, 4.0]]), torch.tensor([0, 0, 1])
        >>> [values.tolist() for values in distances(x, labels, class_centres(x, labels))]
        [[1.0, 0.0], [5.0, 5.0]]
    """
    apart = torch.linalg.norm(features.detach().double() - centres[..., labels, :], dim=-1)
    intra = torch.stack([apart[..., labels == c].mean(-1) for c in range(centres.shape[-2])], -1)
    return intra, pairs(
        torch.linalg.norm(centres[..., :, None, :] - centres[..., None, :, :], dim=-1)
    )


def angles_between(a: Tensor, b: Tensor) -> Tensor:
    r"""Measure the angles in radians between every vector of ``a`` and of ``b``.

    ``a`` is ``[..., I, D]``, ``b`` is ``[..., J, D]``; the angle is NaN for a zero vector.

    Computed as :math:`2 \operatorname{atan2}\bigl(\|u - v\|, \|u + v\|\bigr)` of the unit vectors,
    which is accurate near 0 and π, where :math:`\arccos(u \cdot v)` is not (W. Kahan, *How futile
    are mindless assessments of roundoff in floating-point computation?*, 2006, section 12).

    Example:
        >>> a = torch.tensor([[1.0, 0.0]])
        >>> b = torch.tensor([[2.0, 0.0], [0.0, 1.0], [-3.0, 0.0]])
        >>> angles_between(a, b).rad2deg().tolist()
        [[0.0, 90.0, 180.0]]
    """
    u, v = (
        vectors.double() / torch.linalg.norm(vectors.double(), dim=-1, keepdim=True)
        for vectors in (a, b)
    )
    u, v = u[..., :, None, :], v[..., None, :, :]
    return 2 * torch.atan2(torch.linalg.norm(u - v, dim=-1), torch.linalg.norm(u + v, dim=-1))


def pairs(matrix: Tensor) -> Tensor:
    """Take the entries beside the diagonal, ``[..., K, K]`` to ``[..., K (K - 1)]``."""
    return matrix[..., ~torch.eye(matrix.shape[-1], dtype=torch.bool, device=matrix.device)]
