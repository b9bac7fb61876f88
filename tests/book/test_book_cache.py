"""The book's execution cache is keyed on everything that a page can show."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml

from study import results
from study.campaign.plan import REHEARSAL

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    spec = importlib.util.spec_from_file_location(
        "gdlib_book", ROOT / "book" / "_ext" / "gdlib_book.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "changed",
    [
        "gdlib/a.py",
        "gdlib/b/c.py",
        "results/mnist.csv",
        "results/published/t.csv",
        "campaigns/mnist.yml",
        "study/a/b.py",
        "benchmarks/a.py",
    ],
)
def test_a_change_gives_another_cache(extension: ModuleType, tmp_path: Path, changed: str) -> None:
    path = tmp_path / changed
    path.parent.mkdir(parents=True)
    empty = extension.state_of(tmp_path)
    path.write_text("1")
    first = extension.state_of(tmp_path)
    path.write_text("2")
    second = extension.state_of(tmp_path)
    path.rename(path.with_name("other" + path.suffix))
    assert len({empty, first, second, extension.state_of(tmp_path)}) == 4
    (tmp_path / "README.md").write_text("no page shows this")
    path.with_name("other" + path.suffix).rename(path)
    assert extension.state_of(tmp_path) == second


def test_so_does_a_setting_and_a_label_that_moves(extension: ModuleType, tmp_path: Path) -> None:
    pages = [tmp_path / "book" / name for name in ("a.md", "b.md")]
    pages[0].parent.mkdir()
    seen = []
    for texts in (("(sec-a)=\n# A", "# B"), ("# A", "(sec-a)=\n# B"), ("# A", "(sec-b)=\n# B")):
        for page, text in zip(pages, texts, strict=True):
            page.write_text(text)
        seen.append(extension.state_of(tmp_path))
    pages[0].write_text("# Another title, which the cache of this page alone looks at")
    assert extension.state_of(tmp_path) == seen[-1]
    for name in ("book/claims.yml", "pyproject.toml", "_config.yml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
        seen.append(extension.state_of(tmp_path))
    assert len(set(seen)) == 6


def test_a_rehearsal_leaves_the_pages_as_they_are(extension: ModuleType, tmp_path: Path) -> None:
    kept = tmp_path / results.FOLDER.relative_to(ROOT) / "mnist.csv"
    rehearsed = tmp_path / results.BUILD / REHEARSAL / "b.json"
    for path in (kept, rehearsed):
        path.parent.mkdir(parents=True)
    kept.write_text("job\n")
    before = extension.state_of(tmp_path)
    rehearsed.write_text("{}")
    assert extension.state_of(tmp_path) == before


def test_caches_of_other_states_are_dropped(extension: ModuleType, tmp_path: Path) -> None:
    app = SimpleNamespace(srcdir=tmp_path, outdir=tmp_path / "_build" / "html")
    caches = tmp_path / "_build" / ".jupyter_cache"
    current = caches / extension.state_of(tmp_path)
    for folder in (current, caches / "old"):
        folder.mkdir(parents=True)
    (caches / "global.db").write_text("of an older layout")
    config: dict[str, str] = {}
    extension.key_the_cache(app, config)
    assert config["nb_execution_cache_path"] == str(current)
    assert [path.name for path in caches.iterdir()] == [current.name]


def test_the_book_uses_it() -> None:
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    assert config["execute"]["execute_notebooks"] == "cache"
    assert "gdlib_book" in config["sphinx"]["local_extensions"]
