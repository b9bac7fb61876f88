"""Tables of the book: what a cell shows, and that nothing in a cell can break the table."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from study.figures.table import MISSING, Table, cell, table


def rows(shown: Table) -> list[str]:
    return [line for line in shown._repr_markdown_().splitlines() if line.startswith("|")]


def test_cells_are_formatted_column_by_column_and_holes_are_dashes() -> None:
    frame = pd.DataFrame({"a": [1.23456, math.nan], "b": [0.5, -0.5], "n": [60000, 7]})
    head, marks, first, second = rows(table(frame, "tab-x", "What it shows.", formats={"a": ".2f"}))
    assert head == "| a | b | n |"
    assert marks == "| ---: | ---: | ---: |"
    assert first == "| 1.23 | 0.5 | 60\u2009000 |"
    assert second == "| – | −0.5 | 7 |"


def test_text_stands_left_and_numbers_right() -> None:
    frame = pd.DataFrame(
        {
            "claim": ["E1", "E2"],
            "effect": ["+0.1 [−0.2, +0.3]", "–"],
            "accuracy": ["97.2 ± 0.1", "**97.5 ± 0.2**"],
        }
    )
    assert rows(table(frame, "tab-x", "c"))[1] == "| :--- | ---: | ---: |"


def test_bars_and_line_breaks_stay_inside_their_cell() -> None:
    frame = pd.DataFrame({"a": ["$|x|$", "one\ntwo"], "b": ["\\|", "4"]})
    assert rows(table(frame, "tab-x", "c"))[2:] == ["| $\\|x\\|$ | \\| |", "| one two | 4 |"]


def test_a_text_from_a_file_brings_no_tag_into_the_page() -> None:
    harmless = "1 < 2, `<b>`, $x < y$, <https://a.b>, {ref}`here <sec-a>`"
    title = f"<script>alert(1)</script> <!-- a --> {harmless}"
    shown = table(pd.DataFrame({"title": [title]}), "tab-a", f"Of {title}")._repr_markdown_()
    safe = f"&lt;script>alert(1)&lt;/script> &lt;!-- a --> {harmless}"
    assert f"| {safe} |" in shown
    assert f"{{table}} Of {safe}\n" in shown


def test_a_named_index_and_two_levels_of_columns_are_shown() -> None:
    frame = pd.DataFrame(
        [[1, 2]],
        columns=pd.MultiIndex.from_product([["ours"], ["mean", "sd"]]),
        index=pd.Index(["0.1"], name="β"),
    )
    assert rows(table(frame, "tab-x", "c"))[0] == "| β | ours, mean | ours, sd |"


def test_a_truth_and_a_hole_are_cells() -> None:
    assert [cell(value) for value in (True, False, pd.NA, math.nan)] == [
        "yes",
        "no",
        MISSING,
        MISSING,
    ]


@pytest.mark.parametrize(
    ("name", "caption", "formats", "message"),
    [
        ("accuracy", "c", "", "tab-"),
        ("tab-x", " ", "", "caption"),
        ("tab-x", "c", {"nothing": ".2f"}, "no column 'nothing'"),
    ],
)
def test_mistakes_are_named(
    name: str, caption: str, formats: dict[str, str] | str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        table(pd.DataFrame({"a": [1]}), name, caption, formats=formats)


def test_a_table_without_rows_says_so() -> None:
    assert rows(table(pd.DataFrame({"a": []}), "tab-x", "c"))[-1] == "| not run yet |"


def test_html_is_escaped_for_jupyter() -> None:
    shown = table(pd.DataFrame({"p < 0.2": ["<b>"]}), "tab-x", "a & b")._repr_html_()
    for escaped in ("&lt;b&gt;", "p &lt; 0.2", "a &amp; b"):
        assert escaped in shown


@pytest.mark.parametrize(
    ("frame", "classes"),
    [
        (
            pd.DataFrame(
                {"claim": ["E1"], "what": ["word " * 20], "verdict": ["holds"], "seeds": [5]}
            ),
            "data-table wordy",
        ),
        (pd.DataFrame({"β": ["5"], "a": [1], "b": [2], "c": [3]}), "data-table keyed"),
        (pd.DataFrame({"β": ["5"], "a": [1]}), "data-table"),
    ],
)
def test_the_style_sheet_is_told_what_kind_of_table_it_is(
    frame: pd.DataFrame, classes: str
) -> None:
    assert f":class: {classes}\n" in table(frame, "tab-x", "c")._repr_markdown_()
