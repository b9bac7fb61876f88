"""Data sets by name: tensors to train on, to validate on and to test on, and the exact copy they came from.

Three sources, tried in this order and never mixed silently:

1. ``embedded``: scikit-learn's ``digits``, ``iris``, ``wine`` and ``breast_cancer``, which need no file;
2. ``local``: a folder of Parquet files (the environment variable ``GDLIB_DATA``, else ``../shared/data`` beside the project);
3. ``hub``: the same Parquet files from the public hub, through ``huggingface_hub``.

Image files are decoded once and kept as arrays in the folder ``GDLIB_CACHE`` (else ``~/.cache/gdlib``), under the checksums of the files
they came from.
"""

from gdlib.data.loading import load, names
from gdlib.data.normalization import NORMALIZATIONS, Normalizer, fit_normalizer
from gdlib.data.sets import Dataset, Split

__all__ = ["NORMALIZATIONS", "Dataset", "Normalizer", "Split", "fit_normalizer", "load", "names"]
