"""What the pages of the book share: data, networks, measures, results, comparisons, figures."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The folder of the project, from any working directory."""
