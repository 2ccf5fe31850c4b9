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
        self._end = weakref.finalize(self, _remove, self.name, os.getpid())

    def keep(self) -> None:
        """It stays where it is."""
        self._end.detach()


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
