"""What a training on several ranks refuses: one line, before anything is written."""

import json
import shutil
import socket
import subprocess
import unittest

from harness import CLEAN, EMBLEM, SOURCE, files_of, gpu_is_missing, run
from ranks_cases import Runs, latest, tables_of, train_on

CASE = {"model": "dlrm", "sparse": "sgd", "dense": "sgd", "pooling": "sum", "tables": "hashed"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ranks_with(commands, folders=None):
    """Ranks 0, 1, ... of one job, each with options and a folder of its own."""
    port = str(free_port())
    started = []
    for rank, options in enumerate(commands):
        variables = {"RANK": str(rank), "WORLD_SIZE": str(len(commands)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        started.append(subprocess.Popen([EMBLEM, "train", *map(str, options)], env=CLEAN | variables, text=True,
                                        cwd=folders[rank] if folders else None, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE))
    return [(process.communicate(timeout=300)[1], process.returncode) for process in started]


class Refusals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runs = Runs(CASE, rows=300)
        cls.tables = tables_of(latest(cls.runs.train(1, "--max-steps", 1)))

    @classmethod
    def tearDownClass(cls):
        cls.runs.__exit__()

    def refused(self, ranks, *settings, parts, options=()):
        model = self.runs.folder / "refused"
        self.addCleanup(shutil.rmtree, model, ignore_errors=True)
        chosen = [word for setting in settings for word in ("--set", setting)]
        done = self.runs.try_to_train(ranks, *chosen, *options, name=model.name)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse(model.exists(), list(files_of(model)) if model.exists() else "")
        own = [line for line in done.stderr.splitlines()
               if line.startswith("emblem: ") and not line.startswith("emblem: warning")]
        for part in parts:
            self.assertIn(part, "\n".join(own))
        told = [line for line in own if parts[0] in line]
        self.assertEqual(len(told), 1, done.stderr)
        self.assertNotIn("rank 0 of", told[0])

    def test_more_ranks_than_shards(self):
        self.refused(3, "train_config.logical_shards=2", parts=["logical_shards is 2, but there are 3 ranks"])

    def test_a_batch_that_shards_do_not_divide(self):
        self.refused(2, "train_config.global_batch_size=60", parts=["global_batch_size is 60", "8 shards", "choose 64"])

    def test_more_shards_than_any_machine_has_loaders_for(self):
        self.refused(2, "train_config.logical_shards=1000000", parts=["logical_shards is 1000000, expected up to 1024"])

    def test_gpus(self):
        if not gpu_is_missing():
            self.skipTest("this machine has a GPU")
        self.refused(2, options=["--device", "cuda"], parts=["--device cpu"])

    def plan(self, text):
        path = self.runs.folder / "plan"
        path.write_text(text)
        return f"train_config.plan_path={path}"

    def test_plans(self):
        lines = "".join(f"{name} rows\n" for name in self.tables)
        for ranks, text, parts in (
                (3, "ranks 2\n" + lines, ["is for 2 ranks, but there are 3"]),
                (2, "ranks 3\n" + lines, ["is for 3 ranks, but there are 2"]),
                (2, "ranks 2\n" + lines + "other rows\n", ["has table other, which the model does not have"]),
                (2, "ranks 2\n" + lines.partition("\n")[2], [f"has no table {self.tables[0]}"]),
                (2, "ranks 2\n" + lines + f"{self.tables[0]} rank 1\n", [f"names table {self.tables[0]} twice"]),
                (2, "ranks 2\nuser_emb column 3\n", ["plan:2: table user_emb needs"]),
                (2, "ranks 2\nuser_emb rows pooled owner\n", ["plan:2: table user_emb cannot be pooled at its owner"]),
                (2, "ranks 2\nuser_emb rows 0-4096 none\n", ["plan:2: ", "parts '0-4096': expected FIRST-LAST", "or none"]),
                (2, "ranks 2\nuser_emb rows 1/2 2/2\n", ["plan:2: ", "parts '1/2': expected FIRST-LAST", "or none"]),
                (2, "no plan\n", ["plan:1: a plan begins with 'ranks N'"]),
                (2, "", ["plan: not a plan: it begins with 'ranks N'"])):
            with self.subTest(text=text, ranks=ranks):
                self.refused(ranks, self.plan(text), parts=parts)
        self.refused(2, "train_config.plan_path=/nowhere/plan", parts=["/nowhere/plan"])

    def test_columns_of_rows_that_are_updated_as_a_whole(self):
        plan = "ranks 2\n" + "".join(f"{name} columns 2 1 0\n" for name in self.tables)
        self.refused(2, self.plan(plan), "train_config.sparse_optimizer={rowwise_adagrad_optimizer {lr: 0.05}}",
                     parts=["into slices of columns, but rowwise_adagrad needs whole rows; use 'rows' or 'rank N'"])

    def test_16_bits_between_ranks_whose_number_must_not_matter(self):
        self.refused(2, "train_config.exchange_precision=BF16", parts=["results depend on the number of ranks"])

    def test_ranks_with_different_configurations(self):
        base = ["--config", self.runs.config, "--model-dir", self.runs.folder / "different"]
        for change in (["--set", "train_config.seed=6"], ["--train-input", self.runs.data / "test"],
                       ["--model-dir", self.runs.folder / "elsewhere"], ["--max-steps", 3], ["--stop-at", "auc=0.3"]):
            with self.subTest(change=change):
                results = ranks_with([base, base + change if change[0] != "--model-dir" else base[:2] + change])
                for errors, status in results:
                    self.assertEqual(status, 1, errors)
                    self.assertIn("rank 1", errors.splitlines()[-1])
                    self.assertIn("start all ranks with the same pipeline and options", errors.splitlines()[-1])
                self.assertFalse((self.runs.folder / "different").exists())
                self.assertFalse((self.runs.folder / "elsewhere").exists())


class SharedFolder(unittest.TestCase):
    """Ranks in different folders have different places for the same model_dir."""

    def test_a_model_dir_that_ranks_do_not_share(self):
        with Runs(CASE, rows=300) as runs:
            folders = [runs.folder / "a", runs.folder / "b"]
            for folder in folders:
                folder.mkdir()
            command = ["--config", runs.config, "--model-dir", "model"]
            for errors, status in ranks_with([command, command], folders):
                self.assertEqual(status, 1, errors)
                self.assertIn("rank 1", errors.splitlines()[-1])
                self.assertIn("model_dir must be a folder that all ranks share", errors.splitlines()[-1])
            self.assertEqual(list((folders[0] / "model").glob("**/model.ckpt-*")), [])

    def test_a_checkpoint_that_one_rank_does_not_see(self):
        with Runs(CASE, rows=300) as runs:
            folders = [runs.folder / "a", runs.folder / "b"]
            for folder in folders:
                folder.mkdir()
            command = ["--config", runs.config, "--model-dir", "model"]
            done = train_on(2, *command, "--max-steps", 2, cwd=folders[0])
            self.assertEqual(done.returncode, 0, done.stderr)
            before = files_of(folders[0])
            for errors, status in ranks_with([[*command, "--resume"]] * 2, folders):
                self.assertEqual(status, 1, errors)
                self.assertIn("model_dir must be a folder that all ranks share", errors.splitlines()[-1])
            self.assertEqual(files_of(folders[0]), before)
            self.assertFalse((folders[1] / "model").exists())


class DifferentFiles(unittest.TestCase):
    """Files of the same name with other content on another rank."""

    def setUp(self):
        self.runs = Runs(CASE, rows=300)
        self.addCleanup(self.runs.__exit__)
        self.folders = [self.runs.folder / "a", self.runs.folder / "b"]
        for folder in self.folders:
            folder.mkdir()

    def refused(self, *options, parts, config=None):
        model = self.runs.folder / "shared"
        command = ["--config", config or self.runs.config, "--model-dir", model, *options]
        for errors, status in ranks_with([command, command], self.folders):
            self.assertEqual(status, 1, errors)
            for part in ("rank 1", *parts):
                self.assertIn(part, errors.splitlines()[-1])
        self.assertEqual(list(model.glob("**/model.ckpt-*")), [])

    def test_vocabularies(self):
        feature = ("feature_configs[2].id_feature={feature_name: 'user' embedding_dim: 4 vocab_file: 'users.txt' "
                   "default_bucketize_value: 0}")
        for number, folder in enumerate(self.folders):
            users = [str(user) for user in range(50)]
            (folder / "users.txt").write_text("\n".join(users if number == 0 else users[::-1]) + "\n")
        self.refused("--set", feature, parts=["other content in users.txt", "vocab_file"])
        (self.folders[1] / "users.txt").write_text((self.folders[0] / "users.txt").read_text())
        command = ["--config", self.runs.config, "--model-dir", self.runs.folder / "same", "--set", feature,
                   "--max-steps", 2]
        for errors, status in ranks_with([command, command], self.folders):
            self.assertEqual(status, 0, errors)

    def test_tokenizers(self):
        feature = ("feature_configs[2].tokenize_feature={feature_name: 'user' expression: 'item:user' embedding_dim: 4 "
                   "vocab_file: 'tokens.json'}")
        for number, folder in enumerate(self.folders):
            digits = "0123456789" if number == 0 else "9876543210"
            model = {"type": "BPE", "vocab": {digit: place for place, digit in enumerate(digits)}, "merges": []}
            (folder / "tokens.json").write_text(json.dumps({"pre_tokenizer": {"type": "ByteLevel"}, "model": model}))
        self.refused("--set", feature, parts=["other content in tokens.json", "vocab_file"])

    def test_items(self):
        config, data = SOURCE / "configs/taobao/dssm.config", self.runs.folder / "taobao"
        made = run("synth", "--for", config, "--rows", 400, "--test-rows", 50, "--divide-tables", 1000, "--out", data)
        self.assertEqual(made.returncode, 0, made.stderr)
        options = ["--train-input", data / "train", "--eval-input", data / "test", "--divide-tables", 1000,
                   "--set", "data_config.batch_size=16", "--set", "data_config.negative_sampler.num_sample=16",
                   "--set", "data_config.negative_sampler.input_path=items.txt"]
        first, *items = (data / "items.txt").read_text().splitlines()
        for number, folder in enumerate(self.folders):
            (folder / "items.txt").write_text("\n".join([first, *(items if number == 0 else items[::-1]), ""]))
        self.refused(*options, parts=["other content in items.txt", "samplers of items"], config=config)
        shutil.copy(self.folders[0] / "items.txt", self.folders[1])
        command = ["--config", config, "--model-dir", self.runs.folder / "same", *options, "--max-steps", 2]
        for errors, status in ranks_with([command, command], self.folders):
            self.assertEqual(status, 0, errors)

    def test_the_checkpoint_to_begin_with(self):
        for number, folder in enumerate(self.folders):
            done = train_on(1, "--config", self.runs.config, "--model-dir", "start", "--max-steps", 2, "--set",
                            f"train_config.seed={number}", cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.refused("--init-from", "start", parts=["other content in", "start", "a folder that all ranks share"])


if __name__ == "__main__":
    unittest.main()
