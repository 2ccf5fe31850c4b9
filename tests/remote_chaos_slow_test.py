"""Trainings into a model folder of a store that fails by chance (any request, any answer), of one or two processes that are
killed at any moment, on one or two machines: no checkpoint is lost that was reported as saved.

EMBLEM_CHAOS_SEEDS=FIRST-LAST (default 1-20) chooses the seeds."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import EMBLEM, require_arrow, run
from object_server import ObjectServer
import remote_data_test  # sets the environment

MODEL = "s3://out/runs/1"
STEPS, EVERY = 40, 5
KINDS = ["503", "500", "403", "404", "lost", "cut", "stall", "late", "flip", "swallowed", "page", "empty"]
CONFIG = """model_dir: "none" train_config {{ num_epochs: 1 sparse_optimizer {{ sgd_optimizer {{ lr: 0.1 }} }}
    dense_optimizer {{ sgd_optimizer {{ lr: 0.1 }} }} save_checkpoints_steps: {every} keep_checkpoint_max: 2 seed: 3 }}
    data_config {{ dataset_type: CsvDataset with_header: true fg_mode: FG_DAG batch_size: 50 label_fields: "label" num_workers: 1
                   download_threads: 2 }}
    feature_configs {{ id_feature {{ feature_name: "id" num_buckets: 100 embedding_dim: 4 }} }}
    model_config {{ feature_groups {{ group_name: "all" feature_names: "id" }} dnn {{ deep {{ hidden_units: [4] }} }} }}"""


class Chaos(unittest.TestCase):
    def setUp(self):
        require_arrow()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.config = self.folder / "pipeline.config"
        self.config.write_text(CONFIG.format(every=EVERY))
        chance = random.Random(1)
        rows = "".join(f"{chance.randrange(2)},{chance.randrange(100)}\n" for _ in range(50 * STEPS))
        self.rows = self.folder / "rows.csv"
        self.rows.write_text("label,id\n" + rows)
        self.problems = []
        self.expected = self.learned_locally()

    def learned_locally(self):
        model = self.folder / "local"
        trained = run("train", "--config", self.config, "--model-dir", model, "--train-input", self.rows)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        last = model / f"model.ckpt-{STEPS}"
        return {str(path.relative_to(last)): path.read_bytes() for path in last.rglob("*") if path.is_file()
                and path.name not in ("manifest.json", "pipeline.config")}

    def check_manifest(self, bucket, key):
        """After every change: a checkpoint that has a manifest is whole."""
        found = re.match(r"runs/1/(model\.ckpt-\d+)/", key)
        manifest = found and self.store.get(bucket, f"runs/1/{found[1]}/manifest.json")
        if not manifest:
            return
        for name, facts in json.loads(manifest)["files"].items():
            content = self.store.get(bucket, f"runs/1/{found[1]}/{name}")
            if content is None or len(content) != facts["bytes"]:
                self.problems.append(f"{found[1]}/{name} is missing or short after a change of {key}")

    def stored_steps(self):
        return [int(found[1]) for key in self.store.keys("out", "runs/1/")
                if (found := re.fullmatch(r"runs/1/model\.ckpt-(\d+)/manifest\.json", key))]

    def local_steps(self, machine):
        return [int(re.search(r"ckpt-(\d+)/", str(path))[1])
                for path in (self.folder / machine).glob("models/*-train/**/model.ckpt-*/manifest.json")
                if "/.upload" not in str(path) and "/.fetch" not in str(path)]

    def start(self, machine, *more):
        environment = {**os.environ, "EMBLEM_TEST_HOST": machine, "EMBLEM_TEST_LOCK_SECONDS": "3", "EMBLEM_TEST_RETRY_MS": "0"}
        return subprocess.Popen([EMBLEM, "train", "--config", self.config, "--model-dir", MODEL, "--train-input", self.rows,
                                 "--endpoint", self.store.url, "--cache-dir", self.folder / machine, *more],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def step(self, chance, saved):
        """One or two processes while requests fail; each may be killed when the store has got some number of requests."""
        share = chance.choice([0, 0.1, 0.5, 1, 1])
        match = chance.choice(["", "PUT", "PUT /out/runs/1/model.ckpt-", "manifest.json", "DELETE", "GET", ".lock"])
        kinds = chance.choice([KINDS, ["503", "500", "lost", "cut"], ["flip", "503"], ["swallowed"], ["page", "empty"]])
        self.store.fail_by_chance(chance, share, kinds, match, after=chance.choice([0, 15, 30, 60]))
        begin = len(self.store.log)
        steps = min(STEPS, max(saved.values()) + chance.randrange(1, 15))
        newest = {machine: max([0, *self.local_steps(machine), *self.stored_steps()]) for machine in ("a", "b")}
        processes = [(machine, self.start(machine, *(["--resume"] if chance.random() < 0.8 else []), "--max-steps",
                                          str(steps)))
                     for machine in chance.sample(["a", "b"], chance.choice([1, 1, 2]))]
        for machine, process in processes:
            if chance.random() < 0.4:
                after = begin + chance.randrange(1, 120)
                while len(self.store.log) < after and process.poll() is None:
                    time.sleep(0.002)
                process.send_signal(signal.SIGKILL)
        for machine, process in processes:
            out, err = process.communicate(timeout=600)
            self.check_begin(err, newest[machine])
            found = re.search(r"checkpoint  s3://out/runs/1/model\.ckpt-(\d+)", out)
            if process.returncode == 0 and found:
                saved["store"] = max(saved["store"], int(found[1]))
                if max(self.stored_steps(), default=0) < int(found[1]):
                    self.problems.append(f"model.ckpt-{found[1]} was reported and is not in the store: {err}")
            saved[machine] = max([saved[machine], *self.local_steps(machine)])
        self.store.heal()

    def check_begin(self, err, newest):
        """A training begins with the newest checkpoint that its machine and the store had."""
        begin = re.search(r"resuming from \S*model\.ckpt-(\d+)", err)
        if "training:" in err and int(begin[1] if begin else 0) < newest:
            self.problems.append(f"a training began at {begin and begin[1]} though there was {newest}: {err}")

    def check(self, saved):
        if self.store.buckets["out"] and max(self.stored_steps(), default=0) < saved["store"]:
            self.problems.append(f"the store has {self.stored_steps()}, reported was {saved['store']}")
        for machine in ("a", "b"):
            have = [*self.local_steps(machine), *self.stored_steps()]
            if max(have, default=0) < saved[machine]:
                self.problems.append(f"machine {machine} and the store have {have}; saved was {saved[machine]}")

    def run_seed(self, seed):
        chance = random.Random(seed)
        for machine in ("a", "b"):
            shutil.rmtree(self.folder / machine, ignore_errors=True)
        with ObjectServer() as self.store:
            self.store.buckets["out"] = {}
            self.store.when_changed(self.check_manifest)
            saved = {"store": 0, "a": 0, "b": 0}
            for _ in range(chance.randrange(2, 6)):
                self.step(chance, saved)
                self.check(saved)
                if self.problems:
                    return
            for machine in ("a", "b"):  # healthy again: everything reaches the store, and the model is that of a run without faults
                newest = max([0, *self.local_steps(machine), *self.stored_steps()])
                process = self.start(machine, "--resume")
                _, err = process.communicate(timeout=600)
                self.check_begin(err, newest)
                if process.returncode:
                    self.problems.append(f"a healthy run failed: {err}")
                self.check(saved)
            prefix = f"runs/1/model.ckpt-{STEPS}/"
            learned = {key[len(prefix):]: self.store.get("out", key) for key in self.store.keys("out", prefix)
                       if not key.endswith(("/manifest.json", "/pipeline.config"))}
            if learned != self.expected:
                self.problems.append(f"another model was learned: {sorted(learned)}, {self.stored_steps()}")
            if left := [key for key in self.store.keys("out", "runs/1/.lock/") if key.endswith(".json")]:
                self.problems.append(f"locks are left: {left}")

    def test_nothing_that_was_saved_is_lost(self):
        first, _, last = os.environ.get("EMBLEM_CHAOS_SEEDS", "1-20").partition("-")
        for seed in range(int(first), int(last or first) + 1):
            with self.subTest(seed=seed):
                self.problems.clear()
                self.run_seed(seed)
                self.assertEqual(self.problems, [], f"seed {seed}")


if __name__ == "__main__":
    unittest.main()
