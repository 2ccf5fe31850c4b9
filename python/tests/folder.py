"""Tests with a folder of their own."""
import pathlib
import tempfile
import unittest

import emblem
import rows


class Folder(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="emblem-test-")
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def train(self, data=None, **options):
        return emblem.train(rows.make() if data is None else data, rows.PIPELINE, **{"progress": False, **options})
