"""The figure "Train two networks that differ only in β" computes as gdlib does, and says so."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gdlib.calibration import beta_link, inverse_beta_link
from gdlib.functional import gd_cross_entropy

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "book" / "_static"
BROWSER = Path(__file__).parent / "browser"
SCRIPTS = ("twonets-arithmetic.js", "twonets-drawing.js", "twonets.js")
SEEDS = (1, 2, 3)
STEPS = 100
WIDTH = 16
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Two networks</title>
<link rel="stylesheet" href="twonets.css"><style>html[data-theme="dark"] {{
background: #14181e; color: #eee }} body {{ font: 16px sans-serif; margin: 1rem }}</style>
<main><h1>Two networks</h1>
<div class="twonets" data-instead="fig-twonets">Two networks train here where scripts run.</div>
<figure id="fig-twonets"><a href="twonets.svg"><img alt="still" src="twonets.svg"></a></figure>
</main>{scripts}</html>"""


def node(script: Path, *arguments: object) -> list[Any]:
    """Run a script; returns its lines of JSON."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("the figure's arithmetic was not run: node is missing")
    command = [program, str(script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


# -- the arithmetic is gdlib's ---------------------------------------------------------------------


def network(first: list[float]) -> nn.Sequential:
    """The figure's network with these weights."""
    layers = nn.Sequential(
        *(nn.Linear(2, WIDTH), nn.Tanh()),
        *(nn.Linear(WIDTH, WIDTH), nn.Tanh()),
        nn.Linear(WIDTH, 1),
    ).double()
    nn.utils.vector_to_parameters(torch.tensor(first, dtype=torch.float64), layers.parameters())
    return layers


def logits(model: nn.Module, points: list[dict[str, float]]) -> torch.Tensor:
    """Logits [N, 2]: 0 for class 0, the network's number for class 1."""
    places = torch.tensor([[point["x"], point["y"]] for point in points], dtype=torch.float64)
    return torch.cat([torch.zeros(len(points), 1, dtype=torch.float64), model(places)], dim=1)


def labels(points: list[dict[str, float]]) -> torch.Tensor:
    return torch.tensor([point["label"] for point in points])


@pytest.mark.parametrize(
    ("beta", "rate", "fresh"),
    [(0.01, 0.01, False), (0.1, 0.03, True), (0.001, 0.003, False), (20.0, 0.1, True)],
)
def test_a_hundred_steps_are_those_of_gdlib(beta: float, rate: float, fresh: bool) -> None:
    arguments = map(json.dumps, (beta, rate, fresh, STEPS))
    (figure,) = node(BROWSER / "twonets.cjs", "steps", STATIC, *arguments)
    assert figure["steps"] == len(figure["batches"]) == STEPS
    assert figure["first"][0] == figure["first"][1], "both networks begin with the same weights"
    assert figure["last"][0] != figure["last"][1]
    for k, factor in enumerate((1.0, beta)):
        model = network(figure["first"][k])
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=1e-4)
        for batch in figure["batches"]:
            optimizer.zero_grad()
            gd_cross_entropy(logits(model, batch), labels(batch), beta=factor).backward()
            optimizer.step()
        weights = nn.utils.parameters_to_vector(model.parameters())
        expected = torch.tensor(figure["last"][k], dtype=torch.float64)
        torch.testing.assert_close(weights, expected, rtol=0, atol=1e-6)

        with torch.no_grad():
            probabilities = logits(model, figure["points"]).softmax(dim=1)
        true_class = labels(figure["points"])[:, None]
        right = probabilities.gather(1, true_class).flatten()
        shown = torch.tensor(figure["logOdds"][k], dtype=torch.float64).sigmoid()
        torch.testing.assert_close(shown, right, rtol=0, atol=1e-6)

        kept, ordered = figure["kept"][k], right.sort().values
        assert kept["wrong"] == (right <= 0.5).sum() and kept["lost"] == (right <= 0.2).sum()
        assert kept["least"] == pytest.approx(ordered[: len(right) // 5].mean().item(), abs=1e-6)
        assert kept["surest"] == pytest.approx(ordered[-len(right) // 5 :].mean().item(), abs=1e-6)

    two = torch.tensor([[p, 1 - p] for p in (0.1, 0.5, 0.9)], dtype=torch.float64)
    assert figure["link"] == pytest.approx(inverse_beta_link(two, beta)[:, 0].tolist())
    assert figure["unlink"] == pytest.approx(beta_link(two, beta)[:, 0].tolist())


# -- what the questions say is what was seen -------------------------------------------------------


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    """Each question for each seed."""
    return node(BROWSER / "twonets.cjs", "questions", STATIC, *SEEDS)


def of(answers: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    found = [answer for answer in answers if answer["key"] == key]
    assert len(found) == len(SEEDS)
    return found


def kept(run: dict[str, Any], key: str, steps: int) -> list[float]:
    """A number of β = 1 and of the other β after so many steps."""
    (record,) = (record for record in run["history"] if record["steps"] == steps)
    return [network[key] for network in record["kept"]]


def at_the_end(run: dict[str, Any], key: str) -> list[int]:
    """The same, a mean over the last twenty records, rounded half up as in the figure."""
    records = run["history"][-20:]
    means = [sum(record["kept"][k][key] for record in records) / 20 for k in (0, 1)]
    return [int(mean + 0.5) for mean in means]


def test_who_is_learnt_first(answers: list[dict[str, Any]]) -> None:
    for answer in of(answers, "order"):
        (run,) = answer["runs"]
        early, late = kept(run, "least", 120), kept(run, "least", 1500)
        wrong = kept(run, "wrong", 1500)
        said = re.findall(r"\d+\.\d+|\d+(?= of 300)|(?<=β = 1: )\d+(?=\)\.$)", answer["seen"])
        numbers = [early[1], early[0], late[1], late[0], wrong[1], wrong[0]]
        assert [float(text) for text in said] == pytest.approx(numbers, abs=0.00501)
        # what the sentence before tells the reader to watch
        assert kept(run, "surest", 60)[1] > kept(run, "surest", 60)[0] + 0.15
        assert early[1] < 0.1 < 0.25 < early[0], "it falls, and waits"
        assert ("it waited, and came back" in answer["seen"]) == (late[1] > late[0] - 0.05)
        assert wrong[1] < wrong[0]


def test_how_sure(answers: list[dict[str, Any]]) -> None:
    for answer in of(answers, "sure"):
        (run,) = answer["runs"]
        said = re.findall(r"([\d.]+) points (surer|less sure) than right", answer["seen"])
        numbers = [float(text) * (1 if word == "surer" else -1) for text, word in said]
        shown = [run["excess"][1], run["excess"][0], run["unlinked"][1]]
        assert numbers == pytest.approx(shown, abs=0.0501)
        assert run["excess"][1] > 4 and abs(run["excess"][0]) < 3 and abs(run["unlinked"][1]) < 3
        # the dots gather along the curve, and not along the diagonal
        between = [i for i, truth in enumerate(answer["truth"]) if 0.05 < truth < 0.95]
        assert len(between) > 50
        far = {
            name: sum(abs(run["given"][1][i] - answer[name][i]) for i in between) / len(between)
            for name in ("curve", "truth")
        }
        assert far["curve"] < 0.75 * far["truth"]


def test_when_samples_are_lost(answers: list[dict[str, Any]]) -> None:
    for answer in of(answers, "lost"):
        short, long = answer["runs"]
        gentle, rough = at_the_end(short, "wrong"), at_the_end(long, "wrong")
        lost = at_the_end(short, "lost")
        said = re.findall(
            r"had (\d+) of 300 wrong \(β = 1: (\d+)\).*long ones (\d+) \(β = 1: (\d+)\)"
            r".*lost samples \((\d+); β = 1: (\d+)\)",
            answer["seen"],
        )
        numbers = [gentle[1], gentle[0], rough[1], rough[0], lost[1], lost[0]]
        assert [int(text) for text in said[0]] == numbers
        assert gentle[1] < gentle[0] and rough[1] > rough[0]
        assert "The long steps turned the order round." in answer["seen"]


def test_the_state_is_said(answers: list[dict[str, Any]]) -> None:
    for answer in of(answers, "order"):
        wrong, lost = (kept(answer["runs"][0], key, 1500) for key in ("wrong", "lost"))
        for beta, k in (("1", 0), ("0.01", 1)):
            assert f"β = {beta} has {wrong[k]} wrong and {lost[k]} lost" in answer["state"]


# -- weight, and the picture -----------------------------------------------------------------------


def test_the_scripts_are_light() -> None:
    together = b"".join((STATIC / name).read_bytes() for name in SCRIPTS)
    assert len(gzip.compress(together, 9)) <= 10_000


def test_the_picture_is_drawn_by_the_same_arithmetic() -> None:
    program = shutil.which("node")
    if program is None:
        pytest.skip("the picture was not drawn: node is missing")
    script = ROOT / "book" / "tools" / "draw_twonets.mjs"
    done = subprocess.run([program, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    drawn, committed = (
        re.split(r"(-?\d+(?:\.\d+)?)", re.sub(r'href="data:[^"]*"', "", text))
        for text in (done.stdout, (STATIC / "twonets.svg").read_text(encoding="utf-8"))
    )
    assert drawn[::2] == committed[::2], (
        "node book/tools/draw_twonets.mjs > book/_static/twonets.svg"
    )
    apart = [abs(float(a) - float(b)) for a, b in zip(drawn[1::2], committed[1::2], strict=True)]
    assert max(apart) < 0.5, "tenths of a pixel: another machine may round otherwise"


# -- in a browser, with the keyboard ---------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, in_the_browser: Callable[..., list[dict[str, Any]]]
) -> dict[str, Any]:
    """What happened to the figure on a page of its own, opened from its file."""
    folder = tmp_path_factory.mktemp("twonets")
    for name in (*SCRIPTS, "twonets.css", "twonets.svg"):
        shutil.copyfile(STATIC / name, folder / name)
    scripts = "".join(f'<script defer src="{name}"></script>' for name in SCRIPTS)
    (folder / "page.html").write_text(PAGE.format(scripts=scripts), encoding="utf-8")
    (result,) = in_the_browser("twonets.mjs", folder / "page.html")
    return result


def test_a_file_opens_without_errors_and_nothing_is_too_wide(trained: dict[str, Any]) -> None:
    assert trained["console"] == []
    assert set(trained["requests"]) <= {"file:", "data:"}
    assert trained["over"] == {"1280": 0, "390": 0}
    assert min(trained["smallest"].values()) >= 24, "a finger meets every control"


def test_axe_finds_nothing(trained: dict[str, Any]) -> None:
    assert trained["axe"] == []


def test_nothing_moves_before_a_press(trained: dict[str, Any]) -> None:
    assert trained["still"] and trained["start"]["steps"] == "0"
    assert trained["start"]["pressed"] == [] and trained["start"]["seen"] == ""


def test_the_keyboard_reaches_and_answers_the_three_questions(trained: dict[str, Any]) -> None:
    questions = ["order", "sure", "lost"]
    assert trained["path"] == [*questions, "go", "on", "undo", "beta", "rate", "other"]
    assert trained["during"]["look"] and trained["during"]["seen"] == ""
    assert trained["during"]["go"] == "Pause"
    for key, steps in zip(questions, ("1,500", "3,000", "1,500"), strict=True):
        said = trained["said"][key]
        assert said["steps"] == steps and said["go"] == "Train" and len(said["pressed"]) == 1
        # the run before the last one stays, and where dots miss the curve it is said why
        assert said["title"].endswith("; pale: the run before") == (key == "lost")
        assert ("the same 300" in said["aside"]) == (key != "sure")


def test_the_browser_says_what_node_computes(
    trained: dict[str, Any], answers: list[dict[str, Any]]
) -> None:
    """In words; the numbers of long or many steps depend on the last bit of a tanh."""

    def words(text: str) -> str:
        return re.sub(r"[\d.,]+|surer|less sure", "…", text)

    for answer in answers:
        if answer["seed"] == 1:
            said = trained["said"][answer["key"]]
            assert said["look"] == answer["look"]
            assert words(said["seen"]) == words(answer["seen"])


def test_undo_the_slider_single_steps_other_points_and_a_pause(trained: dict[str, Any]) -> None:
    assert trained["undone"]
    slid, stepped, other, paused = (
        trained[state] for state in ("slid", "stepped", "other", "paused")
    )
    assert slid["beta"] == slid["spoken"] == "20" and slid["steps"] == "0"
    assert slid["pressed"] == [], "no question is asked any more"
    assert stepped["steps"] == "20" and stepped["seen"].startswith("After 20 steps: β = 1 has")
    assert stepped["on"] == "To step 40"
    assert other["steps"] == "0" and other["cells"] != slid["cells"]
    assert paused["still"] and paused["seen"].startswith(f"After {paused['steps']} steps")


def test_with_less_motion_it_goes_in_single_steps(trained: dict[str, Any]) -> None:
    assert trained["calm_frames"] == 0
    steps = [state["steps"] for state in trained["calm"]]
    assert steps == ["0", "10", "20", "40", "80", "160", "320", "640", "1,280", "1,500"]
    assert all(state["go"] == "" for state in trained["calm"]), "no button starts a motion"
    assert all(state["focus"] == "on" for state in trained["calm"][1:])
    assert len({state["seen"] for state in trained["calm"]}) == len(steps)
    assert trained["calm"][-1]["seen"] == trained["said"]["order"]["seen"]


def test_both_themes_paper_and_a_reader_without_scripts(trained: dict[str, Any]) -> None:
    assert trained["redrawn"], "the colours of the dark theme are drawn"
    assert trained["screen"] == {"figure": True, "picture": False}
    assert trained["paper"] == {"figure": False, "picture": True}
    assert trained["bare"] == {"figure": False, "picture": True}


def test_a_frame_is_short(trained: dict[str, Any]) -> None:
    """20 ms on an idle machine; the bound leaves room for a busy one."""
    assert max(trained["milliseconds"].values()) < 60, trained["milliseconds"]
