"""Print the book into one PDF with Chromium.

The call is ``python make_pdf.py _build`` after ``jupyter-book build . --builder singlehtml``.
jupyter-book's ``pdfhtml`` needs playwright and a browser of its own, and asks it for no outline.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NAME = "book.pdf"
PLACE = "<!-- the PDF, where it was made -->"


def offer(html: Path, first: str) -> None:
    """Link the PDF from the first page of the built book, if there is one."""
    page, pdf = html / f"{first}.html", html / NAME
    if page.is_file() and pdf.is_file():
        size = f"{pdf.stat().st_size / 1e6:.0f} MB"
        target = os.path.relpath(pdf, page.parent)
        link = f'<p class="pdf"><a href="{target}">The whole book as a PDF</a> ({size})</p>'
        page.write_text(page.read_text(encoding="utf-8").replace(PLACE, link), encoding="utf-8")


def main() -> int:
    """Print, and link what was printed."""
    build, first = Path(sys.argv[1]), sys.argv[2]
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        print(
            f"No Chromium was found to print with; looked for {', '.join(BROWSERS)}.",
            file=sys.stderr,
        )
        return 1
    target = (build / "pdf" / NAME).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    source = (
        build / "singlehtml" / "print.html"
    ).resolve()  # at the top, from where its pictures and styles are named
    text = (build / "singlehtml" / f"{first}.html").read_text(encoding="utf-8")
    text = text.replace("<details ", "<details open ")  # paper cannot be clicked
    source.write_text(text.replace(f'href="{first}.html#', 'href="#'), encoding="utf-8")
    command = [
        browser,
        "--headless",
        "--disable-gpu",
        "--no-pdf-header-footer",
        "--generate-pdf-document-outline",
        "--export-tagged-pdf",
    ]
    command += [
        "--virtual-time-budget=600000",
        f"--print-to-pdf={target}",
        source.as_uri(),
    ]  # until the formulas are set
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.insert(1, "--no-sandbox")  # Chromium refuses to run as root with it
    target.unlink(missing_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if not target.is_file():
        print(done.stderr[-2000:], file=sys.stderr)
        return 1
    if (build / "html").is_dir():
        shutil.copyfile(target, build / "html" / NAME)
        offer(build / "html", first)
    print(f"\nThe book on paper: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
