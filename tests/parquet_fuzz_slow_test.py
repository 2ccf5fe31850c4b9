"""Damaged Parquet, ORC and Arrow files for EMBLEM_FUZZ_SECONDS (600): every run ends well, or with one line about the file."""

import os
import pathlib
import random
import shutil
import tempfile
import time
import unittest

from harness import run, use_arrow, use_test_clients

use_arrow()
use_test_clients("pyarrow")

import pyarrow
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet


class Fuzz(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def files(self):
        chance = random.Random(1)
        rows = 400
        table = pyarrow.table({
            "label": [chance.randint(0, 1) for _ in range(rows)],
            "x": pyarrow.array([chance.random() if chance.random() < 0.9 else None for _ in range(rows)], pyarrow.float32()),
            "id": [chance.randint(-2**62, 2**62) for _ in range(rows)],
            "s": [chance.choice("abcdef") * chance.randint(0, 5) for _ in range(rows)],
            "bag": [[chance.randint(0, 9) for _ in range(chance.randint(0, 4))] for _ in range(rows)],
            "texts": [["t" + str(chance.randint(0, 9)) for _ in range(chance.randint(0, 4))] for _ in range(rows)],
            "nested": [[[1, 2], [], [3]][:chance.randint(0, 3)] for _ in range(rows)],
        })
        for name, options in (("plain", {"use_dictionary": False, "compression": "none"}), ("snappy", {"row_group_size": 150}),
                              ("zstd", {"compression": "zstd", "data_page_version": "2.0", "data_page_size": 300}),
                              ("checked", {"write_page_checksum": True})):
            path = self.folder / f"{name}.parquet"
            pyarrow.parquet.write_table(table, path, **options)
            yield path
        pyarrow.orc.write_table(table, self.folder / "a.orc", compression="zlib")
        yield self.folder / "a.orc"
        pyarrow.feather.write_feather(table, self.folder / "a.arrow", compression="lz4", chunksize=150)
        yield self.folder / "a.arrow"

    def damage(self, data, chance):
        data = bytearray(data)
        kind = chance.randrange(5)
        if kind == 0:
            return data[:chance.randrange(len(data))]
        if kind == 1:  # the footer
            for _ in range(chance.randint(1, 4)):
                data[-1 - chance.randrange(min(len(data), 3000))] = chance.randrange(256)
        elif kind == 2:
            for _ in range(chance.randint(1, 20)):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        elif kind == 3:  # a part in another place
            begin, length = chance.randrange(len(data)), chance.randint(1, 200)
            part = data[begin:begin + length]
            at = chance.randrange(len(data))
            data[at:at + len(part)] = part
        else:
            at = chance.randrange(len(data))
            data[at:at + 8] = chance.choice((b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7))
        return data

    def test_no_crash(self):
        deadline = time.monotonic() + float(os.environ.get("EMBLEM_FUZZ_SECONDS", "600"))
        chance = random.Random(int(os.environ.get("EMBLEM_FUZZ_SEED", "1")))
        originals = [(path, path.read_bytes()) for path in self.files()]
        runs = refused = 0
        while time.monotonic() < deadline:
            path, data = chance.choice(originals)
            damaged = self.damage(data, chance)
            target = self.folder / f"damaged{path.suffix}"
            target.write_bytes(damaged)
            process = run("inspect", target, timeout=120)
            runs += 1
            refused += process.returncode != 0
            if process.returncode not in (0, 1) or (process.returncode == 1 and len(process.stderr.strip().splitlines()) != 1):
                kept = pathlib.Path(tempfile.gettempdir()) / f"emblem-fuzz-{runs}{path.suffix}"
                kept.write_bytes(damaged)
                self.fail(f"{kept}: status {process.returncode}: {process.stderr[-2000:]}")
        print(f"{runs} damaged files, {refused} refused")
        self.assertGreater(runs, 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
