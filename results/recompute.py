"""Recompute from the records what the book says of the claims: means, 95 % intervals, p-values, outcomes of comparisons and of claims.

NumPy and SciPy alone; nothing of the book's code. ``python results/recompute.py`` prints them.
"""

import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy import stats

RECORDS = Path(__file__).resolve().parent / "records"

# Which records: campaign/file. What the parentheses find is the variant, and (?P<arm>...) comes
# before the name of a setting.
PLACES = {
    "plane": r"mnist/feature-plane-(\w+-\w+)-seed",
    "followed": r"mnist/curriculum-(\w+-\w+)-seed",
    "grid": r"mnist/((?:relu|tanh|sigmoid)-(?:unit|none|standard))-seed",
    "taus": r"mnist(?:-edges)?/temperature-",
    "link": r"mnist-edges/link-(\w+-\w+)-seed",
    "width": r"mnist-width/(?P<arm>large|small)-step-seed",
    "step": r"mnist-step/(relu|tanh)-(?P<arm>.+)-seed",
    "cifar10": r"(cifar10-(?:reduced|fast)/(?:augmented|plain))(?:-warmup)?-seed",
    "many": r"(tiny-imagenet-reduced/plain|cifar100-fast/augmented)(?:-warmup(?:-gd1)?)?-seed",
    "tiny": r"(tiny-imagenet-reduced/plain)-seed",
    "images": r"((?:cifar10|tiny-imagenet)-reduced/(?:augmented|plain)|cifar100?-fast/(?:augmented|plain))(?:-warmup(?:-gd1)?)?-seed",
    "fast": r"(cifar100?-fast/(?:augmented|plain))(?:-warmup(?:-gd1)?)?-seed",
    "cifar100": r"(cifar100-fast/augmented)(?:-warmup(?:-gd1)?)?-seed",
    "feedback": r"cifar10-(?:fast|feedback)/(plain|augmented)(?:-warmup)?-seed",
    "matched feedback": r"cifar10-(?:fast/|feedback/matched-)(plain|augmented)(?:-warmup)?-seed",
    "tail": r"cifar10-long-tailed/(small-step|)",
    "rivals": r"(?:cifar10|margin-losses)-reduced/plain-",
    "momentum": r"(cifar10-reduced|cifar10-fast)/(?P<arm>(?:no-)?momentum(?:-same-step)?)-seed",
    "matched": r"(cifar10-reduced)/(?P<arm>matched|plain)-seed",
    "tables": r"(uci|uci-adam)/(?:table|together)-",
    "layers": r"(iris-depth|iris-depth-adam)/depth-",
    "margins": r"(large-margin-reduced)/(?!fewer|noise|reading)",
    "half": r"large-margin-reduced/(fewer-subset3000)-",
    "noise": r"large-margin-reduced/(noise-label-noise0.[25])-",
    "angles": r"(angular-reduced|angular-mnist)/(?:all|augmented)-",
    "cifar": r"(angular-reduced)/augmented-",
    "cuts": r"(angular-mnist|angular-reduced)/(?P<arm>all|augmented|fewer-subset600|fewer|shorter)-(?!subset)",
    "cost": r"angular-cost/(?P<arm>)",
    "new margins": r"(cifar100-fast)/(?:losses|augmented)-seed",
    "new angles": r"(cifar10-fast)/losses-(?:angles-)?seed\d(?!-a-softmax|-center-0.003)",
    "tuned": r"(cifar10-fast)/(?:augmented|rate|chosen|lower)-seed\d-(?:learning-rate[0-9.]+-)?beta(?:5|1|0\.1)$",
    "mnist tuned": r"mnist-rates/rate-",
    "new matched": r"(cifar10-fast)/(?P<arm>augmented|matched)-seed\d-beta(?:5|1|0\.1)$",
    "new rivals": r"(cifar10-fast)/(?:augmented-warmup-seed\d|losses-seed\d-(?:a-softmax-4|center-0.003))$",
}
FIVE = (
    "plane",
    "followed",
    "grid",
    "step",
    "width",
    "link",
    "taus",
    "cost",
    "tuned",
    "mnist tuned",
    "new matched",
)
SEEDS = {"tables": 15, "layers": 10} | dict.fromkeys(FIVE, 5)
WARM, WARM_1 = "warm-up 0.1→1", "warm-up 1→5"
PLAN = {"augmented": ("20", "5", "1", "0.1", "0.01", WARM), "plain": ("20", "1", "0.1", WARM)}
ANGULAR = ("softmax", "arcgrad 10", "center 0.02", "m-softmax 0.5", "arcface 20 0.1", "adacos")
NEW_ANGULAR = tuple(loss for loss in ANGULAR if loss != "m-softmax 0.5")
NEW_RIVALS = "(center 0.02|arcface.*|adacos)"
OTHERS, RIVALS = (
    "3/(softmax|center 0.02|m-softmax 0.5|arcface 20 0.1|adacos)",
    "(center|m-softmax|arcface|adacos).*",
)

# Claim and part; place; metric; difference (max[...] and min[...] choose the setting with the
# largest or smallest mean of a metric among those that the expression names, name@metric takes
# another metric); what meets it. The opposite contradicts it.
COMPARISONS = [
    ("E1 a", "plane", "intra_inter_ratio", "0.1 − 1", "< 0"),
    ("E1 b", "plane", "minimum_to_mean_inter", "0.01 − 0.1", "< 0"),
    ("E2 a", "followed", "epoch_easy", "0.01 − 1", "< 0"),
    ("E2 b", "followed", "gap", "0.01 − 1", "> 0"),
    ("E2 c", "followed", "never_learnt", "0.01 − 1", "> 0"),
    ("E3 a", "grid", "lost", "0.001 − 1", "> 0"),
    ("E3 b", "grid", "lost", "0.001 − 0.5", "> 0"),
    ("E3 c", "grid", "sure", "0.1 − 1", "> 0"),
    ("E4 a", "grid", "test_accuracy", "0.01 − 1", "> 0"),
    ("E4 b", "grid", "test_accuracy", "1 − 5", "> 0"),
    *(("E4 c", "grid", "test_accuracy", f"warm-up {ends} − max[test_accuracy](5|2|1|0.1|0.01)", "> 0")
      for ends in ("0.001→0.01", "0.01→0.1")),
    ("E5 a", "grid", "early_loss", "0.01 − 1", "< 0"),
    ("E5 b", "grid", "early_loss", "1 − 5", "< 0"),
    ("E14 a", "taus", "train_confidence", "0.01 at 1 − near[train_confidence](1 at .*)", "within 0.001"),
    ("E14 a", "taus", "lost", "0.01 at 1 − near[train_confidence](1 at .*)", "differs 0"),
    *(("E14 b", "taus", "test_accuracy", f"max[valid_accuracy](.*) − max[valid_accuracy]({one})", "> 0") for one in (".* at 1", "1 at .*")),
    *((part, "step", metric, f"{arm}/0.001 − {arm}/1", test) for part, arm, metric, test in [
        ("B4 a", "rate-learning-rate0.001", "errors", "< 0"), ("B4 b", "rate-learning-rate0.1", "errors", "> 0"),
        ("B4 c", "rate-learning-rate0.001", "lost", "< 0"), ("B4 d", "rate-learning-rate0.1", "lost", "> 0"),
        *(("B4 e", f"rate-learning-rate{rate}", "share", "> 0") for rate in ("0.001", "0.01", "0.03", "0.1")),
        ("B4 f", "first-rate-255", "errors", "> 0"), ("B4 g", "first-weights-255", "errors", "> 0"),
    ]),
    ("E6 a", "cifar10", "test_accuracy", "0.1 − 1", "> 0"),
    ("E6 b", "cifar10", "test_accuracy", "1 − 5", "> 0"),
    ("E6 c", "cifar10", "test_accuracy", f"{WARM} − max[test_accuracy](5|1|0.1|0.01)", "> 0"),
    ("E8 a", "many", "test_accuracy", "5 − 0.1", "> 0"),
    ("E8 b", "many", "test_top5_accuracy", "5 − 0.1", "> 0"),
    ("E9 a", "tiny", "test_accuracy", "5 − 0.1", "within 0.01"),
    ("E9 b", "tiny", "test_top5_accuracy", "5 − 0.1", "> 0"),
    ("E9 c", "tiny", "train_accuracy", "0.1 − 5", "> 0"),
    ("E10 a", "rivals", "test_accuracy", f"{WARM} − a-softmax 4", "> 0"),
    ("E10 b", "rivals", "test_accuracy", f"{WARM} − center 0.003", "> 0"),
    ("E11 a", "images", "over", "0.1 − 1", "> 0"),
    ("E11 a", "images", "over", "0.1", "> 0"),
    ("E11 b", "images", "test_ece", "20 − 1", "< 0"),
    ("E11 c", "images", "test_ece", "0.1 − 1", "> 0"),
    ("E11 d", "images", "test_mce", "0.1 − 20", "> 0"),
    *((f"E12 {part}", "images", "test_ece", f"{beta} − 1@test_ece_{after}", "< 0")
      for part, beta in (("a", "min[valid_ece]([0-9.]+)"), ("b", "20")) for after in ("temperature", "vector")),
    ("E13 a", "momentum", "oscillation", "momentum/5 − momentum/0.1", "> 0"),
    *(("E13 b", "momentum", "oscillation", f"{arm}/5 − {arm}/0.1", "< 0") for arm in ("no-momentum", "no-momentum-same-step")),
    ("E13 c", "fast", "falls", "5 − 0.1", "> 0"),
    *((part, "many", "test_accuracy", f"{warm_up} − max[test_accuracy](5|1|0.1|0.01)", "> 0")
      for part, warm_up in (("E16 a", WARM), ("E16 b", WARM_1))),
    ("E17 a", "fast", "early", f"{WARM} − 1", "> 0"),
    ("E17 b", "fast", "over", f"{WARM} − 0.1", "< 0"),
    ("E18 a", "cifar100", "test_accuracy", "max[number]([0-9.]+) − 1", "> 0"),
    ("E18 b", "cifar100", "over", "max[number]([0-9.]+)", "< 0"),
    ("B1 a", "matched", "over", "matched/0.1 − matched/5", "> 0"),
    ("B1 b", "matched", "test_accuracy", "matched/0.1 − plain/1", "differs 0"),
    ("B1 a", "new matched", "over", "matched/0.1 − matched/5", "> 0"),
    ("B1 b", "new matched", "test_accuracy", "matched/0.1 − augmented/1", "differs 0"),
    *(row for cde, place, rate in (("cde", "tuned", "0.2"), ("fgh", "mnist tuned", "0.001")) for row in [
        (f"B1 {cde[0]}", place, "over", "chosen/0.1 − chosen/5", "> 0"),
        (f"B1 {cde[1]}", place, "test_accuracy", "chosen/0.1 − chosen/1", "differs 0.005"),
        *((f"B1 {cde[2]}", place, "test_accuracy", f"{rate}/0.1 − {rate}/5 − {n}*chosen/0.1 + {n}*chosen/5", "> 0")
          for n in (0, 2)),  # 0 times: not before these are there
    ]),
    *(("B2 a", "images", "test_ece", f"{beta}@test_ece_link − {beta}", "< 0") for beta in ("0.1", "max[number]([0-9.]+)")),
    ("B2 b", "images", "test_ece", "0.1@test_ece_link − 0.1@test_ece_temperature", "< 0.01"),
    ("B2 c", "link", "test_ece", "0.1@test_ece_link − 0.1", "< 0"),
    *(row for ab, place in (("ab", "feedback"), ("cd", "matched feedback")) for row in [
        (f"B3 {ab[0]}", place, "test_ece", "feedback 1, 5, 5 − 1", "< 0"),
        (f"B3 {ab[1]}", place, "test_accuracy", "feedback 1, 5, 5 − 1", "> -0.005"),
    ]),
    *((part, "tail", "test_accuracy", text, "> 0") for part, text in [
        ("B5 a", "class-beta 0.1 − 1"), ("B5 b", "adjusted 1 − class-beta 0.1"), ("B5 c", "adjusted 1 − adjusted 0.1"),
        ("B5 d", "weighted 0.1 − 0.1"), ("B5 e", "class-beta 0.1@test_accuracy_link − class-beta 0.1"),
        ("B5 f", "weighted 1 − weighted 0.1"),
    ]),
    ("E19 a", "width", "lost", "large/25/0.001 − large/25/1 − large/400/0.001 + large/400/1", "> 0"),
    ("E19 b", "width", "lost", "large/400/0.001 − large/400/1", "within 60"),
    ("E19 c", "width", "lost", "small/25/0.001 − small/25/1", "> 0"),
    ("A2 a", "tables", "test_accuracy", f"3/arcgrad 5 − max[test_accuracy]({OTHERS})", "> 0"),
    ("A2 b", "tables", "wins", f"3/arcgrad 5 − max[wins]({OTHERS})", "> 0"),
    ("A2 c", "tables", "rank", "3/softmax − 3/arcgrad 5", "nemenyi 7"),
    *(("A2 d", "tables", "test_accuracy", f"3/softmax − 3/{loss}", "> 0") for loss in ("center 0.02", "arcface 20 0.1", "adacos")),
    *(row for loss in ("softmax", "arcface 20 0.1", "adacos") for row in [
        ("A3 a", "layers", "test_accuracy", f"10/arcgrad 5 − 10/{loss}", "> 0"),
        ("A3 b", "layers", "test_accuracy", f"3/{loss} − 10/{loss} − 3/arcgrad 5 + 10/arcgrad 5", "> 0"),
    ]),
    ("L3 a", "margins", "test_accuracy", "lm 0.3 − softmax", "> 0"),
    *((f"L3 {part}", "margins", "test_accuracy", f"0.5*{one} 0.3 + 0.5*{one} 0.9 − 0.5*lm-qu 0.3 − 0.5*lm-qu 0.9", "> 0")
      for part, one in (("b", "lm-uq"), ("c", "lm"))),
    ("L3 d", "margins", "test_accuracy", "lm 0.9 − lm 0.1", "> 0"),
    ("L4 a", "margins", "test_accuracy", "lm 0.3 − max[test_accuracy](label-smoothing .*)", "> 0"),
    ("L4 b", "margins", "test_accuracy", "lm 0.3 − super-symmetry", "> 0"),
    ("L4 c", "margins", "test_accuracy", "super-symmetry − softmax", "< 0"),
    ("L4 d", "margins", "train_margin_bias", "lm 0.3 − softmax", "> 0"),
    ("L4 e", "margins", "train_margin_bias", "label-smoothing 0.1 − softmax", "> 0"),
    ("L4 f", "margins", "rise", "lm 0.3 − softmax", "> 0"),
    *((part, place, "test_accuracy", difference, "> 0") for part, place, difference in [
        ("L5 a", "half", "lm 0.3 − softmax"), ("L5 b", "half", "lm 1 − lm 0.3"),
        ("L5 c", "noise", "lm 0.3 − softmax"), ("L5 d", "noise", "lm 1 − lm 0.3"),
    ]),
    *(("L10 a", place, "test_accuracy", "label-smoothing 0.1 − label-smoothing 0.3 − lm 0.1 + lm 0.3", "> 0")
      for place in ("margins", "new margins")),
    ("L6 a", "margins", "test_accuracy", "hinge − softmax", "pooled< 0"),
    ("L6 b", "margins", "test_accuracy", "modified − softmax", "pooled> 0"),
    ("L6 c", "margins", "test_accuracy", "lm 0.3 − max[test_accuracy](modified|l-softmax .*|lgm .*)", "pooled> 0"),
    ("L6 d", "margins", "test_accuracy", "modified-lm 0.3 − modified", "pooled> 0"),
    ("A4 a", "cifar", "test_accuracy", "arcgrad 10 − softmax", "> 0"),
    ("A4 b", "cifar", "test_accuracy", f"arcgrad 10 − max[test_accuracy]({RIVALS})", "> 0"),
    ("A4 c", "cifar", "test_accuracy", f"max[test_accuracy]({RIVALS}) − softmax", "> 0"),
    *(row for whole, least in (("augmented", "fewer"), ("all", "fewer-subset600")) for row in [
        ("A5 a", "cuts", "test_accuracy", f"{least}/arcgrad 10 − {least}/softmax − {whole}/arcgrad 10 + {whole}/softmax", "> 0"),
        ("A5 b", "cuts", "test_accuracy", f"{least}/arcgrad 10 − max[test_accuracy]({least}/(softmax|arcface.*|adacos))", "> 0"),
        ("A5 c", "cuts", "test_accuracy", f"shorter/arcgrad 10 − shorter/softmax − {whole}/arcgrad 10 + {whole}/softmax", "> 0"),
    ]),
    ("A5 d", "cuts", "test_accuracy", "shorter/arcgrad 10 − max[test_accuracy](shorter/(?!arcgrad).*)", "> 0"),
    *(("A6 a", "angles", "wc_intra", f"softmax − {loss}", "> 0") for loss in ANGULAR if loss != "softmax"),
    *(("A6 b", "angles", "wc_intra", f"arcgrad 10 − {loss}", "< 0") for loss in ANGULAR if loss != "arcgrad 10"),
    ("A6 c", "angles", "w_inter", "arcgrad 10 − softmax", "> 0"),
    ("A6 d", "angles", "angle", "arcgrad 10 − softmax", "< 0"),
    *((part, "new margins", metric, difference, "> 0") for part, metric, difference in [
        ("L3 a", "test_accuracy", "lm 0.3 − 1"), ("L3 b", "test_accuracy", "lm-uq 0.3 − lm-qu 0.3"),
        ("L3 c", "test_accuracy", "lm 0.3 − lm-qu 0.3"), ("L3 d", "test_accuracy", "lm 0.9 − lm 0.1"),
        ("L4 a", "test_accuracy", "lm 0.3 − max[test_accuracy](label-smoothing .*)"),
        ("L4 b", "test_accuracy", "lm 0.3 − super-symmetry"),
        ("L4 d", "train_margin_bias", "lm 0.3 − 1"), ("L4 e", "train_margin_bias", "label-smoothing 0.1 − 1"),
        ("L6 b", "test_accuracy", "modified − 1"), ("L6 c", "test_accuracy", "lm 0.3 − max[test_accuracy](modified|l-softmax .*|lgm .*)"),
        ("L6 d", "test_accuracy", "modified-lm 0.3 − modified"),
    ]),
    ("L4 c", "new margins", "test_accuracy", "super-symmetry − 1", "< 0"),
    ("L6 a", "new margins", "test_accuracy", "hinge − 1", "< 0"),
    ("E10 a", "new rivals", "test_accuracy", f"{WARM} − a-softmax 4", "> 0"),
    ("E10 b", "new rivals", "test_accuracy", f"{WARM} − center 0.003", "> 0"),
    ("A4 a", "new angles", "test_accuracy", "arcgrad 10 − softmax", "> 0"),
    ("A4 b", "new angles", "test_accuracy", f"arcgrad 10 − max[test_accuracy]{NEW_RIVALS}", "> 0"),
    ("A4 c", "new angles", "test_accuracy", f"max[test_accuracy]{NEW_RIVALS} − softmax", "> 0"),
    *(("A6 a", "new angles", "wc_intra", f"softmax − {loss}", "> 0") for loss in NEW_ANGULAR if loss != "softmax"),
    *(("A6 b", "new angles", "wc_intra", f"arcgrad 10 − {loss}", "< 0") for loss in NEW_ANGULAR if loss != "arcgrad 10"),
    ("A6 c", "new angles", "w_inter", "arcgrad 10 − softmax", "> 0"),
    ("A6 d", "new angles", "angle", "arcgrad 10 − softmax", "< 0"),
    ("A7 a", "cost", "excess", "resnet18", "< 0.05"),
    ("A7 b", "cost", "excess", "resnet34 − resnet18", "< 0"),
]  # fmt: skip
# Parts of several comparisons; of others all count
JOINED = {
    "E4 c": "any",
    "E12 a": "any",
    "E12 b": "any",
    "E14 a": "provided",
    "B1 e": "provided",
    "B1 h": "provided",
}
OLDER = {
    "E6",
    "E8",
    "E11",
    "E12",
    "B1",
    "B2",
}  # which older reduced runs no longer decide once the small network does
OLDER_IN_PARTS = {
    "E10",
    "E13",
    "L3",
    "L4",
    "L6",
    "L10",
    "A4",
    "A6",
}  # likewise, in the parts that the small network answers


def numbers(record, run):
    """Everything of a run that is one number, and what the criteria derive from its curves and counts."""
    m = {**run, **run["metrics"]}
    curves, epochs = run.get("curves", {}), record["parameters"].get("epochs")
    accuracy = curves.get("test_accuracy", [])
    if re.fullmatch(r"[0-9.]+", run.get("schedule", "")):
        m["number"] = float(run["schedule"])
    if "test_confidence" in m:
        m["over"] = m["test_confidence"] - m["test_accuracy"]
    if "confidence_counts" in m:
        m["lost"], m["sure"] = m["confidence_counts"][0], m["confidence_counts"][-1]
        m["errors"] = round((1 - m["train_accuracy"]) * record["data"]["train"])
        m["share"] = m["lost"] / m["errors"] if m["errors"] else None
    if "group_confidence" in m:
        hardest, easiest = m["group_confidence"][0], m["group_confidence"][-1]
        m["epoch_easy"] = next(
            (epoch for epoch, value in enumerate(easiest) if value >= 0.9), len(easiest)
        )
        m["gap"] = np.mean(np.subtract(easiest[1:], hardest[1:]))
    if "train_cross_entropy" in curves:
        pairs = zip(curves["train_epoch"], curves["train_cross_entropy"], strict=True)
        m["early_loss"] = np.mean([value for epoch, value in pairs if 1 <= epoch <= 10] or np.nan)
    if len([v for v in curves.get("train_margin_bias", []) if v is not None]) >= 3:
        m["rise"] = m["train_margin_bias"] - min(
            v for v in curves["train_margin_bias"] if v is not None
        )
    if len(curves.get("target_angle", [])) > 1:
        m["angle"] = np.mean(curves["target_angle"][1:])
    if epochs and len(accuracy) >= epochs >= 4 and None not in accuracy:
        each, second_half = accuracy[-epochs:], accuracy[epochs // 2 : epochs + 1]
        m["early"], m["falls"] = (
            np.mean(each[: max(1, epochs // 4)]),
            -np.minimum(np.diff(each), 0).sum(),
        )
        m["oscillation"] = np.std(np.diff(second_half), ddof=1)
    return {
        name: value
        for name, value in m.items()
        if isinstance(value, (int, float)) and value == value
    }


def load(folder=RECORDS):
    """For each place and variant: setting, then seed (or data set), then metric."""
    found = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    times, tables = {}, defaultdict(list)
    for path in sorted(Path(folder).glob("*/*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        name, asked = f"{path.parent.name}/{path.stem}", record["parameters"]
        name = name.replace("cifar100-between", "cifar100-augmented")
        name = re.sub(
            "cifar-edges/(cifar10+)-|(cifar10)-rates/", lambda m: f"{m[1] or m[2]}-fast/", name
        )
        name = re.sub("fast-losses/(cifar10+)-", r"\1-fast/losses-", name)
        for place, match in (
            (place, match) for place, where in PLACES.items() if (match := re.match(where, name))
        ):
            variant = (
                "".join(match.groups()[:1])
                if "arm" not in match.re.groupindex or match.re.groups > 1
                else ""
            )
            for run in record["runs"]:
                label = run.get("schedule") or asked.get("loss") or asked["method"]
                if place in ("tables", "layers"):
                    label = f"{len(asked['hidden']) + 1}/{label}"
                elif place == "width":
                    label = f"{asked['hidden'][0]}/{label}"
                elif "tuned" in place:
                    label = f"{asked['learning_rate']:g}/{label}"
                elif place == "taus":
                    label = f"{run['beta']:g} at {run['temperature']:g}"
                label = "/".join(filter(None, [match.groupdict().get("arm"), label]))
                if place == "tables":
                    tables[variant, label, run["title"]].append(
                        (asked["duplicates_together"], run["metrics"]["test_accuracy"])
                    )
                elif place == "cost":
                    times[run["model"], run["seed"], run["loss"]] = run["metrics"]
                elif not run.get("diverged") or place in ("margins", "half", "noise"):
                    found[place, variant][label][run["seed"]] = numbers(record, run)
    for model, seed, loss in times:
        if loss == "arcgrad 10":
            ours, softmax = times[model, seed, loss], times[model, seed, "softmax"]
            excess = (ours["criterion_seconds"] - softmax["criterion_seconds"]) / softmax[
                "step_seconds"
            ]
            found["cost", ""][model][seed] = {"excess": excess}
    # the rate of the largest mean validation accuracy, over the seeds of all rates that have three
    for tuned, beta in [
        (settings, beta)
        for (place, _), settings in found.items()
        if "tuned" in place
        for beta in ("5", "1", "0.1")
    ]:
        rates = [of for label, of in tuned.items() if label.endswith(f"/{beta}") and len(of) >= 3]
        if len(rates) >= 3 and len(common := set.intersection(*map(set, rates))) >= 3:
            tuned[f"chosen/{beta}"] = max(
                rates, key=lambda of: np.mean([of[seed]["valid_accuracy"] for seed in common])
            )
    for (
        variant,
        label,
        title,
    ), scores in tables.items():  # equal rows in one fold, where a data set was also run so
        with_equal_rows = max(together for together, _ in scores)
        found["tables", variant][label][title] = {
            "test_accuracy": np.mean([x for together, x in scores if together == with_equal_rows])
        }
    for (place, _), settings in found.items():
        for title in next(iter(settings.values())) if place == "tables" else ():
            scores = np.array([round(of[title]["test_accuracy"], 6) for of in settings.values()])
            won, ranks = (
                (scores == scores.max()) / (scores == scores.max()).sum(),
                stats.rankdata(-scores),
            )
            for of, wins, rank in zip(settings.values(), won, ranks, strict=True):
                of[title] |= {"wins": wins, "rank": rank}
    return found


def column(settings, label, metric):
    """A metric of a setting, seed by seed."""
    return {unit: of[metric] for unit, of in settings.get(label, {}).items() if metric in of}


def chosen(settings, how, metric, labels, least, goal):
    """The setting, among those that the expression names, whose mean is largest, smallest or nearest to a goal."""
    named = {
        label: column(settings, label, metric)
        for label in sorted(settings)
        if re.fullmatch(labels, label)
    }
    means = {
        label: np.mean([*values.values()])
        for label, values in named.items()
        if len(values) >= least
    }
    score = {"max": lambda x: -x, "min": lambda x: x, "near": lambda x: abs(x - goal)}[how]
    return min(means, key=lambda label: score(means[label]), default="")


def difference(settings, metric, text, least):
    """The difference, unit by unit, over the units that every term has."""
    tokens, total = ["+", *re.split(r" ([−+]) ", text)], defaultdict(list)
    for sign, term in zip(tokens[::2], tokens[1::2], strict=True):
        weight, _, term = term.rpartition("*") if re.match(r"[0-9.]+\*", term) else ("1", "", term)
        label, _, other = term.partition("@")
        if choice := re.fullmatch(r"(max|min|near)\[(\w+)\]\((.*)\)", label):
            goal = (
                np.mean([*column(settings, tokens[1], choice[2]).values()] or np.nan)
                if choice[1] == "near"
                else None
            )
            label = chosen(settings, *choice.groups(), least, goal)
        for unit, value in column(settings, label, other or metric).items():
            total[unit].append((1 if sign == "+" else -1) * float(weight) * value)
    return np.array([sum(parts) for parts in total.values() if len(parts) == len(tokens) // 2])


def judge(d, test, settings, metric):
    """Mean, interval, pairs, outcome, and the level at which the interval would touch what the test asks for (of ranks, 0)."""
    kind, bound = test.split()
    error, freedom, bound = d.std(ddof=1) / np.sqrt(len(d)), len(d) - 1, float(bound)
    if kind.startswith("pooled"):
        groups = [
            np.array([*x.values()])
            for label in settings
            if len(x := column(settings, label, metric)) == len(d)
        ]
        freedom = sum(len(group) - 1 for group in groups)
        error = np.sqrt(
            2 * sum(((group - group.mean()) ** 2).sum() for group in groups) / freedom / len(d)
        )
    mean, half = d.mean(), stats.t.ppf(0.975, freedom) * error
    low, high = mean - half, mean + half
    above, below = low > bound, high < bound
    critical = (
        stats.studentized_range.ppf(0.95, bound, np.inf)
        * np.sqrt(bound * (bound + 1) / (12 * len(d)))
        if kind == "nemenyi"
        else 0
    )
    met, against = {
        ">": (above, below),
        "<": (below, above),
        "differs": (low > 0 or high < 0, -bound < low <= 0 <= high < bound),
        "within": (-bound < low and high < bound, above or high < -bound),
        "nemenyi": (mean >= critical, mean <= -critical),
    }[kind.removeprefix("pooled")]
    ends = {"differs": [0], "within": [-bound, bound], "nemenyi": [0]}.get(kind, [bound])
    p = max(
        2 * stats.t.sf(abs(mean - end) / error, freedom) if error else float(mean == end)
        for end in ends
    )
    return mean, low, high, len(d), "met" if met else "contradicted" if against else "unresolved", p


def comparisons(found):
    """Every comparison: claim and part, place, variant, mean, low, high, pairs, outcome, p-value."""
    for part, place, metric, text, test in COMPARISONS:
        for variant in sorted(variant for where, variant in found if where == place):
            settings, least = found[place, variant], SEEDS.get(place, 3)
            if variant == "angular-mnist" or ("feedback" in place and variant == "augmented"):
                least = 5
            if "-fast/" in variant:
                least = 5 if variant.endswith("augmented") else 3
                if any(len(settings[label]) < least for label in PLAN[variant.partition("/")[2]]):
                    continue
            if place in ("step", "tail", "new angles") and min(map(len, settings.values())) < least:
                continue
            enough = 2 if part == "B4 e" else least
            d = difference(settings, metric, text, least)
            if len(d) >= enough:
                yield part, place, variant, *judge(d, test, settings, metric)


def holm(p):
    """The p-values corrected for their number by Holm's method."""
    order = np.argsort(p)
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(np.sort(p) * np.arange(len(p), 0, -1)).clip(max=1)
    return corrected


def joined(part, outcomes):
    """The outcome of a part from those of its comparisons."""
    if JOINED.get(part) == "provided":
        return outcomes[1] if outcomes[0] == "met" else "unresolved"
    one, all_ = ("met", "contradicted") if JOINED.get(part) == "any" else ("contradicted", "met")
    return one if one in outcomes else all_ if set(outcomes) == {all_} else "unresolved"


def claims(found):
    """The outcome of each claim."""
    parts, planned = defaultdict(list), defaultdict(set)
    for part, _, variant, *_, outcome, _ in comparisons(found):
        parts[part, variant].append(outcome)
    for variant in [
        variant for part, variant in parts if part == "E3 b"
    ]:  # and the means rise along 0.5, 0.1, 0.01, 0.001
        steps = ("0.1 − 0.5", "0.01 − 0.1", "0.001 − 0.01")
        each = [
            judge(difference(found["grid", variant], "lost", step, 5), "> 0", None, "")
            for step in steps
        ]
        fallen = (
            "contradicted" if any(step[-2] == "contradicted" for step in each) else "unresolved"
        )
        parts["E3 b", variant].append("met" if all(step[0] >= 0 for step in each) else fallen)
    family = {"cifar10": "cifar10", "cifar100": "many", "tiny": "many"}
    new = {
        (part[:-2], family[variant.split("-")[0]]) for part, variant in parts if "-fast" in variant
    }
    new |= {
        part for part, variant in parts if part[:-2] in OLDER_IN_PARTS and variant.endswith("-fast")
    }
    result = defaultdict(list)
    for part, *_ in COMPARISONS:
        planned[part[:-2]].add(part)
    for (part, variant), outcomes in parts.items():
        claim, data = part[:-2], variant.split("-")[0]
        older = (claim in OLDER and (claim, family.get(data)) in new) or (
            part in new and "mnist" not in variant
        )
        older &= "-fast" not in variant
        if part != "L4 d" and not older and not (claim == "E12" and data == "cifar10"):
            result[claim].append((part, joined(part, outcomes)))
    for claim, decided in result.items():
        outcomes = {outcome for _, outcome in decided}
        if "contradicted" in outcomes:
            yield claim, "mixed" if "met" in outcomes else "contradicted"
        elif "met" not in outcomes:
            yield claim, "unresolved"
        else:
            complete = {part for part, _ in decided} >= planned[claim] - {"L4 d"}
            yield claim, "supported" if outcomes == {"met"} and complete else "partly supported"


if __name__ == "__main__":
    everything = load()
    rows = [*comparisons(everything)]
    for (part, _, variant, mean, low, high, n, outcome, p), corrected in zip(
        rows, holm([row[-1] for row in rows]), strict=True
    ):
        print(
            f"{part:6} {variant:36} {mean:+10.4g} [{low:+.4g}, {high:+.4g}]  n = {n:<3} {outcome:12} p = {p:.2g}, {corrected:.2g}"
        )
    for claim, outcome in claims(everything):
        print(f"{claim:4} {outcome}")
