"""The reproduction: experiments, data, records, claims.

It has also what they say about the claims of the papers. Nothing in gdlib imports it.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The folder of the project, from any working directory."""
