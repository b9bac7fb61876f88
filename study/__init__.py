"""The reproduction: experiments, data, records, claims.

What the records say of the papers' claims is here too. Nothing in gdlib imports it.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The folder of the project, from any working directory."""
