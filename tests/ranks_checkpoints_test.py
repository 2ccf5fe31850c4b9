"""Checkpoints of several ranks: written on any number, continued on any other, read by every command."""

import concurrent.futures
import csv
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

from harness import CLEAN, EMBLEM, becomes_true, files_of, run
from ranks_cases import Runs, differences, latest, require_same

PLAIN = {"model": "deepfm", "sparse": "adam", "dense": "adamw", "pooling": "weighted mean", "tables": "admission"}
STATIC = {"model": "multi_tower_din", "sparse": "rowwise_adagrad", "dense": "adam", "pooling": "sum", "tables": "shared"}
NUMBERS = [1, 2, 3, 4, 8]
COVERING = [(1, 3), (3, 1), (2, 4), (4, 8), (8, 2)]


def resume_everywhere(test, case, pairs, kinds=("default", "mixed", "rows", "one rank", "replicated"), options=(), at_once=1):
    """Trains 12 of about 24 steps (two epochs) on the first number of each pair, and the rest on the second."""
    with Runs(case, rows=640, epochs=2) as runs, concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        whole = runs.train(1, *options)

        def resume(writers, readers, *plans):
            name = f"{writers}-{readers}"
            runs.train(writers, *runs.plan(plans[0], latest(whole), writers), "--max-steps", 12, *options, name=name)
            require_same(whole, runs.train(readers, *runs.plan(plans[1], latest(whole), readers), "--resume", *options, name=name))

        plans = itertools.cycle(kinds)
        results = [(pair, pool.submit(resume, *pair, next(plans), next(plans))) for pair in pairs]
        for (writers, readers), result in results:
            with test.subTest(writers=writers, readers=readers):
                result.result()


def steps_of(model):
    return sorted(int(path.name.rpartition("-")[2]) for path in model.glob("model.ckpt-*"))


class Resume(unittest.TestCase):
    def test_any_number_of_ranks_continues_a_checkpoint_of_any_other(self):
        resume_everywhere(self, PLAIN, COVERING)

    def test_static_tables(self):
        resume_everywhere(self, STATIC, COVERING[:3])

    def test_columns(self):
        resume_everywhere(self, PLAIN, [(3, 1), (1, 2), (2, 3)], ["columns", "default"])
        resume_everywhere(self, STATIC | {"sparse": "adagrad"}, [(2, 4), (4, 3)], ["columns", "pooled"])

    def test_without_logical_shards_the_shards_are_those_of_the_checkpoint(self):
        with Runs(PLAIN, rows=640, shards=0) as runs:
            whole = runs.train(4, name="whole")
            model = runs.train(4, "--max-steps", 8, name="model")
            runs.train(2, "--resume", name="model")
            require_same(whole, model)

    def test_checkpoints_without_shards_continue_at_the_end_of_an_epoch(self):
        with Runs(STATIC, rows=640, shards=0, train="global_batch_size: 64") as runs:
            epochs = ["--set", "train_config.num_epochs=2"]
            shards = [*epochs, "--set", "train_config.logical_shards=8"]
            first = runs.train(1, name="first")
            self.assertEqual(json.loads((latest(first) / "manifest.json").read_text())["format_version"], 1)
            shutil.copytree(first, runs.folder / "three")
            one = runs.train(1, *shards, "--resume", name="first")
            require_same(one, runs.train(3, *shards, "--resume", name="three"))
            # And back: two epochs on three ranks, the third without shards.
            for name in ("first", "three"):
                runs.train(1, "--set", "train_config.num_epochs=3", "--resume", name=name)
            require_same(runs.folder / "first", runs.folder / "three")

    def test_other_shards_in_the_middle_of_an_epoch_are_refused(self):
        with Runs(STATIC, rows=640, shards=0, batch=64) as runs:
            runs.train(1, "--max-steps", 4, name="plain")
            runs.train(2, "--set", "train_config.logical_shards=8", "--max-steps", 1, name="sharded")
            for name, shards, found in (("plain", 8, 1), ("sharded", 4, 8), ("sharded", 0, 8)):
                with self.subTest(name, shards=shards):
                    before = files_of(runs.folder / name)
                    done = runs.try_to_train(1, "--resume", "--set", f"train_config.logical_shards={shards or 1}", name=name)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    message = done.stderr.splitlines()[-1]
                    self.assertIn("was written in the middle of an epoch", message)
                    self.assertIn(f"--set train_config.logical_shards={found}", message)
                    self.assertEqual(files_of(runs.folder / name), before)


class OtherCommands(unittest.TestCase):
    """They read a checkpoint of three ranks as they read that of one."""

    @classmethod
    def setUpClass(cls):
        cls.runs = Runs(PLAIN, rows=640)
        cls.one, cls.three = cls.runs.train(1), cls.runs.train(3)

    @classmethod
    def tearDownClass(cls):
        cls.runs.__exit__()

    def outputs(self, *command, out):
        """What a command writes for the checkpoint of one rank, and of three."""
        found = []
        for model in (self.one, self.three):
            path = self.runs.folder / f"{model.name}-{out}"
            done = run(*[str(argument).format(model=model, out=path) for argument in command])
            self.assertEqual(done.returncode, 0, done.stderr)
            found.append((path, done.stdout))
        return found

    def test_eval(self):
        (one, _), (three, _) = self.outputs("eval", "--config", self.runs.config, "--checkpoint", "{model}", "--json", "{out}",
                                            out="metrics.json")
        self.assertEqual(json.loads(one.read_text())["auc"], json.loads(three.read_text())["auc"])

    def test_predict(self):
        (one, _), (three, _) = self.outputs("predict", "--checkpoint", "{model}", "--input", self.runs.data / "test", "--out",
                                            "{out}", out="predictions.csv")
        self.assertEqual(one.read_bytes(), three.read_bytes())
        self.assertGreater(len(list(csv.reader(one.read_text().splitlines()))), 50)

    def test_export(self):
        (one, _), (three, _) = self.outputs("export", "--checkpoint", "{model}", "--out", "{out}", out="exported")
        # The configuration of a model has its name.
        one, three = ({name: data for name, data in files_of(folder).items() if not name.endswith(".pbtxt")}
                      for folder in (one, three))
        self.assertEqual([name for name in one.keys() | three.keys() if one.get(name) != three.get(name)], [])
        self.assertTrue(any(name.endswith("emb_vector") for name in one))

    def test_export_of_columns(self):
        options = self.runs.plan("columns", latest(self.one), 3)
        exported = []
        for model in (self.one, self.runs.train(3, *options, name="columns")):
            done = run("export", "--checkpoint", model, "--out", self.runs.folder / f"{model.name}-served")
            self.assertEqual(done.returncode, 0, done.stderr)
            config = (self.runs.folder / f"{model.name}-served/1/pipeline.config").read_text()
            self.assertNotIn("plan_path", config)
            # Others have the model_dir and the time.
            exported.append({name: data for name, data in files_of(self.runs.folder / f"{model.name}-served").items()
                             if name.endswith(("key", "emb_vector", ".safetensors"))})
        self.assertTrue(any(name.endswith("emb_vector") for name in exported[0]))
        self.assertEqual(*exported)

    def test_inspect(self):
        (_, one), (_, three) = self.outputs("inspect", "{model}", out="nothing")
        rows = re.compile(r"user_emb.*")
        self.assertEqual(rows.findall(one)[0].split()[:4], rows.findall(three)[0].split()[:4])

    def test_a_new_run_begins_with_its_weights(self):
        started = [self.runs.train(ranks, "--init-from", model, name=f"init-{ranks}-{model.name}")
                   for ranks in (1, 3) for model in (self.one, self.three)]
        for other in started[1:]:
            require_same(started[0], other)

    def test_damaged_files_are_named(self):
        table = next((latest(self.three) / "tables").glob("user_emb/00001"))
        for name in ("key", "emb_vector", "state", "score", "table.json"):
            with self.subTest(name):
                content = (table / name).read_bytes()
                for damaged in (content[:-1], bytes([content[0] ^ 1]) + content[1:], None):
                    (table / name).unlink()
                    if damaged is not None:
                        (table / name).write_bytes(damaged)
                    done = self.runs.try_to_train(2, "--resume", name=self.three.name)
                    exported = run("export", "--checkpoint", latest(self.three), "--out", self.runs.folder / "damaged")
                    (table / name).write_bytes(content)
                    for process in (done, exported):
                        self.assertEqual(process.returncode, 1, process.stderr)
                        self.assertIn(f"user_emb/00001/{name}", process.stderr)
                    self.assertFalse((self.runs.folder / "damaged").exists())


class Files(unittest.TestCase):
    def test_only_the_newest_are_kept(self):
        with Runs(PLAIN, rows=640, train="keep_checkpoint_max: 2") as runs:
            every = ["--set", "train_config.save_checkpoints_steps=3"]
            one, three = runs.train(1, *every), runs.train(3, *every)
            self.assertEqual(steps_of(one), steps_of(three))
            self.assertEqual(len(steps_of(three)), 2)
            for step in steps_of(one):
                self.assertEqual(differences(one / f"model.ckpt-{step}", three / f"model.ckpt-{step}"), [])
            self.assertEqual([path.name for path in three.iterdir() if path.name.startswith(".")], [])

    def test_a_killed_rank_leaves_whole_checkpoints_and_is_started_again(self):
        with Runs(PLAIN, rows=640, epochs=4, train="keep_checkpoint_max: 3") as runs:
            every = ["--set", "train_config.save_checkpoints_steps=2", "--set", "train_config.eval_steps=100"]
            whole = runs.train(1, *every)
            model = runs.folder / "model"
            command = [EMBLEM, "launch", "--ranks", "3", "--restarts", "3", "--", "train", "--config", str(runs.config),
                       "--model-dir", str(model), *every]
            process = subprocess.Popen(command, env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertTrue(becomes_true(lambda: len(list(model.glob("model.ckpt-*"))) >= 2))
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(children[-1]), signal.SIGKILL)
            output, errors = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, errors)
            self.assertIn("restart 1: 3 ranks", errors)
            require_same(whole, model)


if __name__ == "__main__":
    unittest.main()
