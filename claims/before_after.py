# ruff: noqa: E501
"""Print each claim's word before and after the rules of 28 November 2026, for book/history.md.

It goes with the files of the claims; ``python claims/before_after.py`` from the root of the project.
"""

from pathlib import Path

import yaml

from study import ledger

SAME = "the same interval; new words"
WELCH = "Welch's interval instead of a pooled one; new words"
REASONS = {
    "E1": SAME,
    "E2": SAME + "; the sentence says that epochs are held equal",
    "E3": "the condition is named",
    "E4": SAME,
    "E5": SAME,
    "E14": "β = 0.01 lies between two temperatures in confidence and loses far more samples than either; before, no temperature was equal within 0.1 points",
    "E19": SAME,
    "E6": "in both variants the papers' median effect lies outside the interval",
    "E8": "no premise: the variant with crops, in which β = 5 is behind, counts; without augmentation the papers' effect lies outside",
    "E8-top5": "was a side part of E8; a claim of its own",
    "E9": "only a tenth of Tiny-ImageNet was run",
    "E10": "all five runs of the warm-up count; p = .04",
    "E11": "all five variants count, and all agree",
    "E12": "no premise: with crops at the usual width the claim is met; one rival, vector scaling, of which either sufficed",
    "E13": WELCH,
    "E16": "no premise: the variant with crops counts too",
    "E17": WELCH,
    "E18": "no premise; the better of β = 20 and 50 in each variant, in favour of the claim",
    "B1": WELCH,
    "B2": "no premise; at β = 20 alone, where the two differ",
    "B3": WELCH,
    "B4": SAME,
    "B5": WELCH,
    "B6": "no Holm; one of three intervals excludes 0",
    "B7": "asked anew: before, the chosen rate was the common one, so that the number was the lead itself with a minus",
    "B8": SAME,
    "L3": WELCH,
    "L4": "the papers' effect lies outside the interval with crops",
    "L5": WELCH,
    "L6": "no Holm; p = .048",
    "L10": WELCH,
    "A2": "the papers' effect lies outside both intervals",
    "A3": "ten partitions of 150 flowers get no word",
    "A4": "the papers' effect lies outside the interval",
    "A5": WELCH,
    "A6": "one comparison, with the most compact rival, instead of five",
    "A7": SAME,
}

if __name__ == "__main__":
    print("| claim | before | now | why it differs |")
    print("|---|---|---|---|")
    for name, reason in REASONS.items():
        written = yaml.safe_load(Path(f"claims/{name.split('-')[0]}.yml").read_text())
        sentence = ledger.entries()[name]["claim"] if name in ledger.entries() else written["short"]
        now = ledger.word(name) if name in ledger.entries() else "not run"
        print(f"| **{name}** {sentence} | {written['found']['verdict']} | {now} | {reason} |")
