"""The second picture of a figure, for a phone."""

from __future__ import annotations

import io
from base64 import b64decode
from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from IPython.core.pylabtools import print_figure
from matplotlib.figure import Figure
from PIL import Image

from study.figures import phone


@pytest.fixture
def figure() -> Iterator[Figure]:
    """Two rows of two panels: labels at the left and below, titles above, one legend."""
    drawn, axes = plt.subplots(2, 2, figsize=(7.0, 5.0), layout="constrained", sharey="row")
    for number, ax in enumerate(axes.flat):
        ax.plot([0, 1], [0, number], label="a line with a name that is rather long")
        ax.plot([0, 1], [number, 0], label="another line with a name that is long")
    for column in range(2):
        axes[0, column].set_title(f"column {column}")
        axes[1, column].set_xlabel("x")
        axes[column, 0].set_ylabel(f"row {column}")
    handles, names = axes[0, 0].get_legend_handles_labels()
    drawn.legend(handles, names, loc="outside lower center", ncols=2)
    yield drawn
    plt.close(drawn)


def test_panels_stand_below_each_other_and_each_says_what_it_shows(figure: Figure) -> None:
    phone.stack(figure)
    figure.canvas.draw()
    tops = [ax.get_position().y1 for ax in figure.axes]
    assert (
        tops == sorted(tops, reverse=True)
        and len({ax.get_position().x0 for ax in figure.axes}) == 1
    )
    assert [ax.get_title() for ax in figure.axes] == 2 * ["column 0", "column 1"]
    assert [ax.get_ylabel() for ax in figure.axes] == ["row 0", "row 0", "row 1", "row 1"]
    assert [ax.get_xlabel() for ax in figure.axes] == ["", "", "", "x"]
    assert all(ax.yaxis.get_tick_params()["labelleft"] for ax in figure.axes)


def test_a_row_that_begins_at_the_right_keeps_its_label() -> None:
    figure, axes = plt.subplots(2, 3, figsize=(6.5, 5.0), layout="constrained", sharey="row")
    for row, name in enumerate(("above", "below")):
        axes[row, 0].set_ylabel(name)
    phone.stack(figure)
    # two columns: the second row of three begins beside the end of the first
    labels = [ax.get_ylabel() for ax in figure.axes]
    assert labels == ["above", "", "above", "below", "below", ""]
    plt.close(figure)


def test_nothing_is_cut_and_a_legend_has_as_many_columns_as_fit(figure: Figure) -> None:
    phone.stack(figure)
    figure.canvas.draw()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "a line with a name that is rather long",
        "another line with a name that is long",
    ]
    for part in (legend, *figure.axes):
        box = part.get_tightbbox()
        assert box is not None
        assert box.x0 > -1 and box.x1 < figure.bbox.width + 1 and box.y0 > -1


def test_the_picture_is_as_wide_as_a_phone_and_a_narrow_figure_has_none(figure: Figure) -> None:
    content = phone.picture(figure)
    assert content is not None
    with Image.open(io.BytesIO(b64decode(content))) as image:
        assert image.width == pytest.approx(phone.WIDTH * figure.dpi, rel=0.06)
        assert image.height > image.width
    assert phone.picture(figure) is None, "it is narrow now"


def test_a_picture_has_a_palette_and_looks_as_it_was_drawn(figure: Figure) -> None:
    drawn = print_figure(figure)
    content = phone.png(figure)
    assert drawn is not None and content is not None
    small = b64decode(content)
    assert len(small) < len(drawn) / 2
    with Image.open(io.BytesIO(drawn)) as before, Image.open(io.BytesIO(small)) as after:
        assert after.mode == "P"
        as_drawn, as_stored = (np.asarray(image.convert("RGB")) for image in (before, after))
    assert (as_stored[(as_drawn == 255).all(2)] == 255).all(), "white stays white"
    assert np.abs(as_drawn.astype(int) - as_stored).max() < 50
    assert phone.png(Figure()) is None


def test_a_notebook_has_it_beside_the_first_picture(figure: Figure) -> None:
    display = DisplayFormatter()
    phone.register(display)
    data, metadata = display.format(figure)
    with Image.open(io.BytesIO(b64decode(data["image/png"]))) as image:
        assert image.mode == "P"
    assert phone.KEY not in data and isinstance(metadata[phone.KEY], str)
    assert phone.KEY not in display.format("text")[1]


def test_a_legend_within_a_panel_goes_where_there_is_room() -> None:
    drawn, axes = plt.subplots(1, 2, figsize=(9.0, 4.0), layout="constrained")
    (line,) = axes[1].plot([0, 0.5, 1], [0, 1, 1], label="a line with a name")
    legend = axes[1].legend(loc="upper center")
    phone.stack(drawn)
    drawn.canvas.draw()
    shown = line.get_transform().transform_path(line.get_path())
    assert not shown.intersects_bbox(legend.get_window_extent(), filled=False)
    plt.close(drawn)


def test_a_legend_that_finds_no_room_stands_below_its_panel() -> None:
    drawn, ax = plt.subplots(figsize=(9, 3), layout="constrained")
    for height in range(12):
        ax.plot([0, 1], [height, 12 - height], label="a line" if height < 3 else None)
    ax.set_xlabel("time")
    legend = ax.legend()
    phone.stack(drawn)
    drawn.canvas.draw()
    assert legend.get_window_extent().y1 <= ax.xaxis.label.get_window_extent().y0
    assert legend.get_window_extent().y0 >= drawn.bbox.y0
    plt.close(drawn)


def test_a_legend_of_panels_with_one_label_below_stands_above(figure: Figure) -> None:
    figure.supxlabel("what all panels share")
    phone.stack(figure)
    figure.canvas.draw()
    (legend,) = figure.legends
    assert legend.get_window_extent().y0 > max(ax.bbox.y1 for ax in figure.axes)
