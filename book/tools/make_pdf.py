"""Print the book into one PDF with Chromium.

``python book/tools/make_pdf.py _build FIRST_PAGE`` prints what ``jupyter-book build . --builder
singlehtml`` has built.
jupyter-book's ``pdfhtml`` needs playwright and a browser of its own, and asks it for no outline.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "_ext"))

from pdf_link import NAME, offer

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


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
    # at the top, from where its pictures and styles are named
    source = (build / "singlehtml" / "print.html").resolve()
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
        "--virtual-time-budget=600000",  # until the formulas are set
        f"--print-to-pdf={target}",
        source.as_uri(),
    ]
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
