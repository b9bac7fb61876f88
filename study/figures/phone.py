"""A figure once more for the width of a phone, with its panels below each other.

In a notebook every figure is shown as a picture; beside it stands a second one, of the same figure
laid out anew, which the book shows on a narrow screen (``book/_ext/pictures.py``).
"""

from __future__ import annotations

import io
import textwrap
from base64 import b64encode
from typing import Any

from IPython.core.formatters import BaseFormatter, DisplayFormatter
from IPython.core.pylabtools import print_figure
from matplotlib.category import StrCategoryFormatter
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import FixedFormatter
from matplotlib.transforms import ScaledTranslation
from PIL import Image
from traitlets import Unicode

KEY = "application/x.gdlib.figure-on-a-phone"
"""The key of an output's metadata under which the second picture is, a PNG in base64."""

WIDTH = 4.3  # inches; a figure that is not wider is shown as it is
_LEAST, _MOST = 1.8, 3.2  # inches, the height of the axes of a panel
_NEAR = 0.1  # inches between a legend and a line
_LETTERS = 24  # of a title, above one of two panels
_AROUND = 0.75  # inches for the title of a panel and the numbers and the label below it


class PhoneFormatter(BaseFormatter):
    """What IPython asks for the second picture of a figure, after it has drawn the first."""

    format_type = Unicode(KEY)

    def __call__(self, shown: object) -> tuple[None, str | None]:
        """Give no output of its own, and the second picture as metadata, if it is a figure."""
        return None, picture(shown) if self.enabled and isinstance(shown, Figure) else None


def register(display: DisplayFormatter) -> None:
    """Let a notebook show small pictures, and have the second beside the first."""
    display.formatters["image/png"].for_type(Figure, png)
    display.formatters[KEY] = PhoneFormatter(parent=display)


def png(figure: Figure) -> str | None:
    """Draw a figure as a PNG with a palette of 256 colours, in base64; None if it is empty.

    Drawings have few colours: the picture has a third of the size that Matplotlib's would have.
    """
    drawn = print_figure(figure, pil_kwargs={"compress_level": 0})
    if drawn is None:
        return None
    image = Image.open(io.BytesIO(drawn)).convert("RGB")
    few = image.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.putpalette([255 if level == 254 else level for level in few.getpalette() or []])  # white
    small = io.BytesIO()
    few.save(small, "png")
    return b64encode(small.getvalue()).decode("ascii")


def picture(figure: Figure) -> str | None:
    """Draw a figure for a phone, as a PNG in base64; None if it is narrow as it is.

    The figure stays as it was laid out for the phone.
    """
    if not figure.axes or figure.get_figwidth() <= WIDTH + 0.2:
        return None
    stack(figure)
    return png(figure)


def stack(figure: Figure) -> None:
    """Lay out a figure that has been drawn anew, with as many columns as a phone has room for.

    Panels keep their height and nearly their width, row by row; one at the left has the label
    and the numbers of its vertical axis, which only the first of a row had before.
    """
    parts: list[Any] = [*figure.subfigs] or [figure]
    wide = figure.get_figwidth()
    figure.set_figwidth(WIDTH)
    heights = []
    for part in parts:
        panels = _stack_part(part, wide)
        heights.append(panels + sum(_narrow(legend, part) for legend in [*part.legends]))
    if len(parts) > 1:
        grid = parts[0]._subplotspec.get_gridspec()  # Matplotlib gives no public way to it
        grid.set_height_ratios(heights)
    figure.set_figheight(sum(heights))
    below = 0.0
    for legend in filter(None, [ax.get_legend() for ax in figure.axes]):
        if legend.get_window_extent().overlaps(legend.axes.bbox):
            legend.set_loc("best")  # where the narrow panel has room
            below += _put_below(legend) if _lies_on_something(legend) else 0.0
    figure.set_figheight(sum(heights) + below)


def _lies_on_something(legend: Legend) -> bool:
    """Say whether a line of its axes is behind a legend, or will be when the layout is new."""
    ax: Any = legend.axes
    box = legend.get_window_extent().padded(_NEAR * ax.figure.dpi)
    lines = (line.get_transform().transform_path(line.get_path()) for line in ax.lines)
    return any(line.intersects_bbox(box, filled=False) for line in lines)


def _put_below(legend: Legend) -> float:
    """Put a legend below its axes and their label; returns its height, inches."""
    ax: Any = legend.axes
    used = (ax.bbox.y0 - ax.xaxis.get_tightbbox().y0) / ax.figure.dpi
    under = ScaledTranslation(0, -used, ax.figure.dpi_scale_trans)
    legend.set_loc("upper center")
    legend.set_bbox_to_anchor((0.5, 0), transform=ax.transAxes + under)
    return float(legend.get_window_extent().height / ax.figure.dpi)


def _stack_part(part: Any, wide: float) -> float:
    """Give the panels of a figure, or of a part of one, new places; returns its height, inches."""
    cells: dict[tuple[int, int], list[Any]] = {}
    for ax in [*part.axes]:
        spec = ax.get_subplotspec()
        if not ax.get_visible():
            ax.remove()
        elif spec is not None:
            cells.setdefault((spec.rowspan.start, spec.colspan.start), []).append(ax)
    places = sorted(cells)
    first = cells[places[0]][0]
    before = first.get_subplotspec().get_gridspec().ncols
    columns = min(before, max(1, round(WIDTH * before / wide)))
    if columns == before:
        return part.bbox.height / part.dpi
    tall = [cells[place][0].bbox.height / part.dpi for place in places]
    rows = [tall[start : start + columns] for start in range(0, len(tall), columns)]
    heights = [min(max(*row, _LEAST), _MOST) + _AROUND for row in rows]
    grid = part.add_gridspec(len(rows), columns, height_ratios=heights)
    last_row = max(row for row, _ in places)
    shared = last_row > 0 and not first.get_xlabel()
    # what is up on each panel: its own label, or that of the row that it was in
    firsts = {row: cells[min(place for place in places if place[0] == row)][0] for row, _ in places}
    labels = [cells[place][0].get_ylabel() or firsts[place[0]].get_ylabel() for place in places]
    for number, place in enumerate(places):
        left, lowest = number % columns == 0, number >= len(places) - columns
        said = not left and labels[number] == labels[number - number % columns]
        for ax in cells[place]:
            ax.set_subplotspec(grid[number // columns, number % columns])
        ax, top = cells[place][0], cells[min(other for other in places if other[1] == place[1])][0]
        if shared and not ax.get_title():
            ax.set_title(top.get_title(), fontsize=top.title.get_fontsize())
        if columns > 1 and len(ax.get_title()) > _LETTERS:
            ax.title.set_text(textwrap.fill(ax.get_title(), _LETTERS))
        ax.xaxis.set_tick_params(labelbottom=True)
        if said:
            ax.set_ylabel("")
        else:
            ax.yaxis.set_tick_params(labelleft=True)
            if not isinstance(
                ax.yaxis.get_major_formatter(), (FixedFormatter, StrCategoryFormatter)
            ):
                ax.set_ylabel(labels[number])
        if shared:
            below = cells[max(other for other in places if other[1] == place[1])][0]
            label = below.get_xlabel() if lowest else ""
            ax.set_xlabel(label)
    return sum(heights)


def _narrow(legend: Legend, part: Any) -> float:
    """Write a legend anew, in as many columns as fit below; returns its height in inches."""
    names = [text.get_text() for text in legend.get_texts()]
    entries: dict[str, Any] = dict(zip(names, legend.legend_handles, strict=True))
    for ax in part.axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            if name in entries:
                entries[name] = handle
    look: dict[str, Any] = {
        "title": legend.get_title().get_text() or None,
        "fontsize": "small",
        "loc": f"outside {'upper' if part.get_supxlabel() else 'lower'} center",
    }
    legend.remove()
    for columns in (4, 3, 2, 1):
        again = part.legend(entries.values(), entries.keys(), ncols=columns, **look)
        box = again.get_window_extent()
        if box.width <= part.bbox.width or columns == 1:
            break
        again.remove()
    return float(box.height / part.dpi)
