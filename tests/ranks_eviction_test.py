"""Tables that evict rows while several ranks train them: their content is bit-identical for any number of ranks."""

import csv
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import CLEAN, EMBLEM, require_gpu
from ranks_cases import TABLES, Runs, latest, make_data, require_same, tables_of

CASE = {"model": "deepfm", "sparse": "adam", "dense": "adam", "pooling": "weighted mean", "tables": "counting"}
SEQUENCES = {"model": "multi_tower_din", "sparse": "adagrad", "dense": "adam", "pooling": "weighted mean", "tables": "counting"}
CAPACITY = 1100  # 4 bins of 275 rows
IDS = 20000000   # for which data are made, divided by 20
ADMISSION = "frequency_admission_strategy { threshold: 2 counter_capacity: 600 }"


def evicting(strategy, more=""):
    return f'dynamicemb {{ max_capacity: {CAPACITY} score_strategy: "{strategy}" {more} }}'


def saved_rows(checkpoint):
    """Table -> number of its rows."""
    return {table["name"]: table["rows"] for table in json.loads((checkpoint / "manifest.json").read_text())["tables"]}


class DeviceRuns(Runs):
    """Trainings with the options of a device."""

    options = []

    def try_to_train(self, ranks, *options, **kwargs):
        return super().try_to_train(ranks, *self.options, *options, **kwargs)


class Eviction(unittest.TestCase):
    device = []
    options = []                                     # of trainings
    wide = ["columns 2 2 0", "rank 0 pooled owner"]  # plans of this device

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-ranks-"))
        cls.data = cls.folder / "data"
        with Runs(CASE, data=cls.data) as runs:
            runs.edit(TABLES["counting"], f"dynamicemb {{ max_capacity: {IDS} }}")
            make_data(runs.config, cls.data, 2400, 200)
        with (cls.data / "train/part-00000.csv").open(newline="") as file:
            ids = {row["user"] for row in csv.DictReader(file)}
        assert len(ids) > CAPACITY * 1.1, f"{len(ids)} users do not fill a table of {CAPACITY} rows"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def runs(self, tables, case=CASE, **settings):
        runs = DeviceRuns(case, data=self.data, **settings)
        runs.options = self.device + self.options
        self.addCleanup(runs.__exit__)
        runs.edit(TABLES["counting"], tables)
        return runs

    def require_full(self, model):
        rows = saved_rows(latest(model))["user_emb"]
        self.assertLessEqual(rows, CAPACITY)
        self.assertGreater(rows, CAPACITY * 0.8)

    def plan(self, runs, checkpoint, ranks, kinds):
        """Options with a plan that takes kinds in turn."""
        path = runs.folder / f"plan-{ranks}"
        path.write_text(f"ranks {ranks}\n" + "".join(f"{name} {kinds[i % len(kinds)]}\n"
                                                     for i, name in enumerate(tables_of(checkpoint))))
        return ["--set", f"train_config.plan_path={path}"]

    def same(self, tables, *numbers, case=CASE):
        runs = self.runs(tables, case)
        one = runs.train(1)
        for ranks in numbers:
            with self.subTest(ranks=ranks):
                require_same(one, runs.train(ranks))
        return one

    def test_the_fewest_occurrences(self):
        self.require_full(self.same(evicting("LFU"), 2, 3, 8))

    def test_the_longest_time(self):
        self.require_full(self.same(evicting("STEP"), 2, 3, case=SEQUENCES))

    def test_keys_that_wait_for_admission(self):
        one = self.same(evicting("LFU", ADMISSION), 3, 4)
        self.assertTrue((latest(one) / "tables/user_emb/admission").exists())

    def test_collision_free_hashes(self):
        self.require_full(self.same(f"zch {{ zch_size: {CAPACITY} eviction_interval: 2 lru {{}} }}", 3))

    def test_any_plan(self):
        runs = self.runs(evicting("LFU"))
        one = runs.train(1)
        mixed = ["rows 0-1023 1024-4095 none", "rank 1", "replicated", *self.wide, "rows"]
        require_same(one, runs.train(3, *self.plan(runs, latest(one), 3, mixed)))

    def test_any_number_of_ranks_continues_a_checkpoint_of_any_other(self):
        for tables in (evicting("LFU"), evicting("STEP", ADMISSION)):
            runs = self.runs(tables, epochs=2)
            whole = runs.train(1)
            for writers, readers in ((2, 3), (3, 1)):
                with self.subTest(tables, writers=writers, readers=readers):
                    model = runs.train(writers, "--max-steps", 30, name=f"{writers}-{readers}")
                    runs.train(readers, "--resume", name=model.name)
                    require_same(whole, model)

    def test_checkpoints_without_shards(self):
        """Their tables have no bins: those that have too many rows for one lose some."""
        runs = self.runs(evicting("LFU"), shards=0, train="global_batch_size: 64")
        epochs = ["--set", "train_config.num_epochs=2"]
        first = runs.train(1, name="first")
        self.require_full(first)
        shutil.copytree(first, runs.folder / "three")
        shards = [*epochs, "--set", "train_config.logical_shards=8", "--resume"]
        done = runs.try_to_train(1, *shards, name="first")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rows were evicted while it was read: several ranks evict in 4 bins by key", done.stderr)
        require_same(first, runs.train(3, *shards, name="three"))
        for name in ("first", "three"):  # and back
            runs.train(1, "--set", "train_config.num_epochs=3", "--resume", name=name)
        require_same(first, runs.folder / "three")

    def test_predictions_need_no_bins(self):
        runs = self.runs(evicting("LFU"), shards=0, train="global_batch_size: 64")
        model = runs.train(1)
        self.require_full(model)
        files = []
        for launcher in ([], ["launch", "--ranks", "3", "--"]):
            files.append(runs.folder / f"predictions-{len(launcher)}.csv")
            command = [EMBLEM, *launcher, "predict", "--checkpoint", model, "--input", self.data / "test", "--out", files[-1],
                       *self.device]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=CLEAN)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.compare_predictions(*files)

    def compare_predictions(self, one, several):
        self.assertEqual(one.read_bytes(), several.read_bytes())

    def test_a_plan_that_cuts_a_bin_is_refused(self):
        runs = self.runs(evicting("LFU"))
        one = runs.train(1, "--max-steps", 1)
        done = runs.try_to_train(2, *self.plan(runs, latest(one), 2, ["rows 0-255 256-4095"]), name="refused")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"emblem: the plan \(train_config.plan_path\) gives parts 0-255 of table \S+ to a rank, but "
                                      r"it evicts keys in bins of 1024 parts, which are on one rank each; cut it at multiples of")
        self.assertFalse((runs.folder / "refused").exists())

    def test_a_batch_that_does_not_fit_into_a_bin_is_refused(self):
        runs = self.runs(evicting("LFU").replace(str(CAPACITY), "20"))
        done = runs.try_to_train(3)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"emblem: .*table \S+: a batch has \d+ distinct keys of bin 0 of 1, whose share of the "
                                      r"capacity is 20: raise the capacity or lower the batch size")


class EvictionOnGpu(Eviction):
    device = ["--device", "cuda"]
    options = ["--set", "train_config.deterministic=true"]

    @classmethod
    def setUpClass(cls):
        require_gpu()
        super().setUpClass()

    def compare_predictions(self, one, several):
        """The rows of a batch depend on the ranks, and with them the last bits."""
        with one.open(newline="") as a, several.open(newline="") as b:
            rows, others = list(csv.reader(a)), list(csv.reader(b))
        self.assertEqual(len(rows), len(others))
        for row, other in zip(rows[1:], others[1:]):
            for value, expected in zip(row, other):
                self.assertAlmostEqual(float(value), float(expected), delta=1e-5)

    def test_a_cache_over_host_memory(self):
        """Rows in host memory, with few of them on the GPU."""
        self.options = [*self.options, "--set", "train_config.device_bytes=60000"]
        self.require_full(self.same(evicting("LFU"), 2, 3))


if __name__ == "__main__":
    unittest.main()
