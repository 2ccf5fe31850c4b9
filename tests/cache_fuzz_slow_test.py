"""Cache folders that were damaged in every way, for EMBLEM_FUZZ_SECONDS (600): a run reads the right rows nevertheless."""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import EMBLEM, becomes_true, require_arrow, run
from object_server import ObjectServer
import remote_data_test  # sets the environment

PART = 65536


class Fuzz(unittest.TestCase):
    def setUp(self):
        require_arrow()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.store = ObjectServer().__enter__()
        self.addCleanup(self.store.__exit__)
        self.cache, self.pristine, self.model = (self.folder / name for name in ("cache", "pristine", "model"))
        self.out = self.folder / "out.csv"
        self.config = self.folder / "pipeline.config"
        self.config.write_text("""model_dir: "none" train_config { num_epochs: 1 sparse_optimizer { sgd_optimizer { lr: 0.1 } }
            dense_optimizer { sgd_optimizer { lr: 0.1 } } }
            data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_DAG batch_size: 1000 label_fields: "label"
                          part_bytes: %d download_threads: 4 }
            feature_configs { id_feature { feature_name: "id" num_buckets: 1000 embedding_dim: 4 } }
            model_config { feature_groups { group_name: "all" feature_names: "id" } dnn { deep { hidden_units: [4] } } }""" % PART)

    def put_objects(self):
        """Small objects, and one of 20 parts whose download is killed."""
        chance = random.Random(3)

        def rows(count):
            lines = "".join(f"{chance.randrange(2)},{chance.randrange(100, 1000)}\n" for _ in range(count))
            return ("label,id\n" + lines).encode()
        for i in range(6):
            self.store.put("data", f"a-{i}.csv", rows(3000 + i % 2))
        self.store.put("data", "b.csv", rows(20 * PART // 6))

    def predict(self):
        """Writes every row, in order. The checkpoint has the size of parts."""
        return ["predict", "--checkpoint", self.model, "--input", "s3://data/", "--keep", "label,id", "--out", self.out,
                "--endpoint", self.store.url, "--cache-dir", self.cache]

    def expected_rows(self):
        """What a run without a cache folder's help gives."""
        trained = run("train", "--config", self.config, "--model-dir", self.model, "--train-input", "s3://data/", "--endpoint",
                      self.store.url, "--cache-dir", self.cache)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        predicted = run(*self.predict())
        self.assertEqual(predicted.returncode, 0, predicted.stderr)
        shutil.rmtree(self.cache)
        self.store.forget()
        self.assertEqual(run(*self.predict()).returncode, 0)
        self.all_requests = self.store.count("GET", "b.csv")
        shutil.rmtree(self.cache)
        rows = self.out.read_bytes()
        kept = b"".join(line.rpartition(b",")[0] + b"\n" for line in rows.splitlines()[1:])
        self.assertEqual(kept, b"".join(self.store.get("data", key).partition(b"\n")[2] for key in self.store.keys("data")))
        return rows

    def fill_cache(self):
        """a-0 to a-5 whole, b in part, by a process that is killed."""
        self.store.fail("stall", times=1000000, match="b.csv")
        self.store.faults[0].times = 0
        self.store.forget()
        process = subprocess.Popen([EMBLEM, *map(str, self.predict())], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertTrue(becomes_true(lambda: self.store.count("GET", "b.csv") > 9 or process.poll() is not None))
        self.store.faults[0].times = 1000000
        self.assertTrue(becomes_true(lambda: self.store.faults[0].times < 1000000 or process.poll() is not None))
        self.assertTrue(becomes_true(lambda: len(list((self.cache / "objects").glob("*.json"))) == 6))
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.store.heal()
        self.store.release()
        self.assertTrue(list((self.cache / "partial").glob("*.parts")))
        self.cache.rename(self.pristine)

    def damage(self, chance):
        """One to four files: what a crash, a bad disk, a full disk or a person does to them."""
        for _ in range(chance.randint(1, 4)):
            files = sorted(path for path in self.cache.rglob("*") if path.is_file())
            path, other = chance.choice(files), chance.choice(files)
            data = bytearray(path.read_bytes())
            kind = chance.randrange(9)
            if kind == 0 and data:
                path.write_bytes(data[:chance.randrange(len(data))])
            elif kind == 1 and data:
                for _ in range(chance.randint(1, 9)):
                    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                path.write_bytes(data)
            elif kind == 2:
                path.unlink()
            elif kind == 3:
                path.write_bytes(data + bytes(chance.randrange(256) for _ in range(chance.randint(1, 300))))
            elif kind == 4 and path != other:  # keeps its time
                path.unlink()
                shutil.copy2(other, path)
            elif kind == 5 and path != other:
                spare = self.folder / "spare"
                path.rename(spare), other.rename(path), spare.rename(other)
            elif kind == 6 and data:  # a block that a crash left empty
                begin = chance.randrange(len(data)) // 4096 * 4096
                data[begin:begin + 4096] = bytes(len(data[begin:begin + 4096]))
                path.write_bytes(data)
            elif kind == 7:
                place = path.with_name(chance.choice(("x", ".hidden", path.stem, path.name + ".data")))
                if not place.is_dir():
                    place.write_bytes(data)
            else:
                place = self.cache / chance.choice(("objects", "partial", "locks")) / chance.choice((path.name, path.stem))
                if not place.exists():
                    place.mkdir()

    def test_rows_are_right(self):
        self.put_objects()
        expected = self.expected_rows()
        self.fill_cache()
        deadline = time.monotonic() + float(os.environ.get("EMBLEM_FUZZ_SECONDS", "600"))
        chance = random.Random(int(os.environ.get("EMBLEM_FUZZ_SEED", "1")))
        runs = refetched = continued = 0
        damaged = self.folder / "damaged"
        while time.monotonic() < deadline:
            shutil.rmtree(self.cache, ignore_errors=True)
            shutil.copytree(self.pristine, self.cache)
            self.damage(chance)
            shutil.rmtree(damaged, ignore_errors=True)
            shutil.copytree(self.cache, damaged)
            self.store.forget()
            if chance.random() < 0.2:
                self.store.fail(chance.choice(("503", "cut")), times=2, match=".csv", bytes=1000)
            self.out.unlink(missing_ok=True)
            process = run(*self.predict(), timeout=300)
            runs += 1
            refetched += self.store.count("GET", "a-") > 0
            continued += 0 < self.store.count("GET", "b.csv") < self.all_requests
            found = self.out.read_bytes() if process.returncode == 0 else b""
            if found != expected:
                kept = shutil.move(damaged, tempfile.mkdtemp(prefix="emblem-fuzz-"))
                self.fail(f"run {runs}, {kept}: status {process.returncode}, {len(found)} bytes of {len(expected)}: "
                          f"{process.stderr[-2000:]}")
            self.store.heal()
        print(f"{runs} damaged caches; {refetched} times objects were fetched again, {continued} times a download went on")
        self.assertGreater(min(runs, refetched, continued), 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
