"""What is installed here, for reports of faults."""
from __future__ import annotations

import importlib.metadata
import platform
import subprocess
import sys

from emblem import _cuda
from emblem._runtime import PROGRAM, __version__

_PACKAGES = ("numpy", "pandas", "polars", "pyarrow", "duckdb", "scikit-learn", "matplotlib", "ray", "nvidia-cublas",
             "nvidia-nccl-cu13")


def show_versions() -> None:
    """Prints versions of emblem, of Python and of the packages that it works with, where it is, and what the machine has.

    >>> emblem.show_versions()  # doctest: +ELLIPSIS
    emblem ...
    """
    print(f"emblem {__version__} in {PROGRAM.parent.parent}")
    print(f"Python {platform.python_version()} in {sys.executable}, {platform.platform()}")
    for name in _PACKAGES:
        try:
            print(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            print(f"{name}: not installed")
    if PROGRAM.exists():
        made = subprocess.run([PROGRAM, "inspect", "--machine"], capture_output=True, text=True, env=_cuda.environment())
        print((made.stdout or made.stderr).strip())
