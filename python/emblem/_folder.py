"""Temporary folders that go with the object that uses them."""
from __future__ import annotations

import os
import shutil
import tempfile
import weakref


class TemporaryFolder:
    """Removed when it is dropped, or when the process ends; a process that was forked leaves it to its parent."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="emblem-")
        weakref.finalize(self, _remove, self.name, os.getpid())


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
