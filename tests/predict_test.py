"""eval and predict from a checkpoint: bad rows, kept columns, values without a row, where results are written."""

import csv
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

from harness import EMBLEM, becomes_true, files_of, run

PIPELINE = """
train_input_path: "{folder}/train.csv"
eval_input_path: "{folder}/train.csv"
model_dir: "{folder}/model"
train_config {{
  sparse_optimizer {{ adam_optimizer {{ lr: 0.02 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.01 }} }}
  num_epochs: 2
  save_checkpoints_steps: 0
}}
data_config {{ with_header: true label_fields: "label" fg_mode: FG_DAG batch_size: 64 num_workers: 2 }}
feature_configs {{ id_feature {{ feature_name: "user_id" embedding_dim: 4 dynamicemb {{ max_capacity: 10000 }} }} }}
feature_configs {{ id_feature {{ feature_name: "item_id" embedding_dim: 4 hash_bucket_size: 500 }} }}
feature_configs {{ raw_feature {{ feature_name: "age" }} }}
model_config {{
  feature_groups {{ group_name: "all" feature_names: ["user_id", "item_id", "age"] }}
  dnn {{ deep {{ hidden_units: [16] }} }}
  metrics {{ auc {{ thresholds: 0 }} }}
  metrics {{ log_loss {{}} }}
}}
"""
CLICKS = """
train_input_path: "{data}" model_dir: "{model}"
train_config {{
  sparse_optimizer {{ sgd_optimizer {{ lr: 0.1 }} }} dense_optimizer {{ sgd_optimizer {{ lr: 0.1 }} }}
  num_epochs: 1 save_checkpoints_steps: 0
}}
data_config {{ dataset_type: CsvDataset with_header: true label_fields: "label" fg_mode: FG_DAG batch_size: 50 }}
feature_configs {{ id_feature {{ feature_name: "item" embedding_dim: 4 dynamicemb {{ max_capacity: 1000 }} }} }}
feature_configs {{ sequence_feature {{ sequence_name: "clicks" sequence_length: 9 sequence_delim: "|"
  features {{ id_feature {{ feature_name: "item" embedding_dim: 4 dynamicemb {{ max_capacity: 1000 }} }} }} }} }}
model_config {{
  feature_groups {{ group_name: "all" feature_names: "item" }}
  feature_groups {{ group_name: "clicks" group_type: SEQUENCE feature_names: ["item", "clicks__item"] }}
  multi_tower_din {{ towers {{ input: "all" mlp {{ hidden_units: 4 }} }}
    din_towers {{ input: "clicks" attn_mlp {{ hidden_units: 4 }} }} final {{ hidden_units: 4 }} }}
  metrics {{ auc {{}} }}
}}
"""
HEADER = ["label", "user_id", "item_id", "age", "note"]
ROWS = 1000
BAD = {0, 1, 17, 500, *range(128, 192), ROWS - 1}  # both ends and a whole batch


def rows():
    chance = random.Random(3)
    for i in range(ROWS):
        user, item = chance.randrange(200), chance.randrange(100)
        yield [str(int((user + item) % 3 == 0)), f"a{user}", f"i{item}", str(chance.randrange(18, 80)), f'n, "{i}"']


class Predict(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        cls.write("train.csv", rows())
        cls.config = cls.folder / "pipeline.config"
        cls.config.write_text(PIPELINE.format(folder=cls.folder))
        trained = run("train", "--config", cls.config)
        assert trained.returncode == 0, trained.stderr
        cls.trained = trained
        cls.model = cls.folder / "model"
        cls.checkpoint = next(cls.model.glob("model.ckpt-*"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def write(cls, name, lines):
        path = cls.folder / name
        path.parent.mkdir(exist_ok=True)
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([HEADER, *lines])
        return path

    def setUp(self):
        self.out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))

    def predict(self, source, out, *options, **kwargs):
        return run("predict", "--checkpoint", self.model, "--input", source, "--out", out, *options, **kwargs)

    def evaluate(self, source, *options):
        return run("eval", "--checkpoint", self.model, "--input", source, *options)

    def succeed(self, process):
        self.assertEqual(process.returncode, 0, process.stderr)
        return process

    def refuse(self, process, *parts):
        self.assertEqual(process.returncode, 1, process.stderr)
        lines = [line for line in process.stderr.splitlines() if not line.startswith("emblem: read ")]
        self.assertEqual(len(lines), 1, process.stderr)
        self.assertNotIn("filesystem error", lines[0])
        for part in parts:
            self.assertIn(part, lines[0])

    def predictions(self, source):
        """Of a file without bad rows."""
        self.succeed(self.predict(source, self.out / "plain.csv"))
        return (self.out / "plain.csv").read_text().splitlines()[1:]

    # ---- bad rows ----

    def test_every_row_has_a_line_and_evaluations_skip_bad_ones(self):
        good = list(rows())
        bad = [[*row[:3], "old", row[4]] if i in BAD and i % 2 else ["x"] if i in BAD else row for i, row in enumerate(good)]
        data = f'{self.write("bad1.csv", bad[:300])},{self.write("bad2.csv", bad[300:])}'
        expected = ['""' if i in BAD else line for i, line in enumerate(self.predictions(self.folder / "train.csv"))]
        for option in (["--set", "data_config.max_bad_rows=100"], ["--max-bad-rows", 100]):
            for workers in (1, 3):
                process = self.succeed(self.predict(data, self.out / "p.csv", *option, "--set", f"data_config.num_workers={workers}"))
                self.assertEqual((self.out / "p.csv").read_text().splitlines(), ["prediction", *expected])
                self.assertIn(f"skipped {len(BAD)} bad rows", process.stdout)
        clean = self.write("clean.csv", [row for i, row in enumerate(good) if i not in BAD])
        results = []
        for source, *options in ((data, "--max-bad-rows", 100), (clean,)):
            self.succeed(self.evaluate(source, *options, "--json", self.out / "e.json"))
            results.append(json.loads((self.out / "e.json").read_text()))
        self.assertEqual([result["bad_rows"] for result in results], [len(BAD), 0])
        for key in ("rows", "auc", "lookups"):
            self.assertEqual(results[0][key], results[1][key])
        self.assertAlmostEqual(results[0]["log_loss"], results[1]["log_loss"], places=12)
        self.refuse(self.predict(data, self.out / "no.csv", "--max-bad-rows", 3), "bad1.csv:2", "max_bad_rows")
        self.assertFalse((self.out / "no.csv").exists())

    # ---- kept columns ----

    def test_kept_columns_pass_through(self):
        good = list(rows())
        good[3][4] = ""
        good[4][1] = " a b "
        good[5] = [*good[5][:3], "old", good[5][4]]
        source = self.write("keep.csv", good)
        self.succeed(self.predict(source, self.out / "p.csv", "--max-bad-rows", 1, "--keep", "note,user_id"))
        with open(self.out / "p.csv", newline="") as file:
            found = list(csv.reader(file))
        self.assertEqual(found[0], ["note", "user_id", "prediction"])
        self.assertEqual([line[0] for line in found[1:]], [row[4] for row in good])
        self.assertEqual([line[1].strip() for line in found[1:]], [row[1].strip() for row in good])
        self.assertEqual([i for i, line in enumerate(found[1:]) if line[2] == ""], [5])

    def test_columns_that_cannot_be_kept(self):
        source = self.folder / "train.csv"
        for keep, *parts in (("user_id,town", 'no column "town"', "user_id, item_id"), ("user_id,usr_id", 'did you mean "user_id"'),
                             ("age,age", '--keep names "age" twice'), ("prediction", '"prediction"', "the column that predict adds")):
            self.refuse(self.predict(source, self.out / "p.csv", "--keep", keep), *parts)
        doubled = self.out / "doubled.csv"
        doubled.write_text("label,user_id,item_id,age,age\n1,a1,i1,20,20\n")
        self.refuse(self.predict(doubled, self.out / "p.csv", "--keep", "age"), "columns 4 and 5", '"age"')
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["doubled.csv"])

    # ---- values without a row ----

    def test_values_that_were_written_differently_are_reported(self):
        other = self.write("other.csv", [[row[0], "b" + row[1][1:], *row[2:]] for row in rows()])
        warning = "warning: values without a row in their table: user_id 100.0 %"
        evaluated = self.succeed(self.evaluate(other, "--json", self.out / "e.json"))
        self.assertIn(warning, evaluated.stderr)
        lookups = json.loads((self.out / "e.json").read_text())["lookups"]
        self.assertEqual(lookups, {"user_id": {"values": ROWS, "missing": ROWS, "missing_share": 1.0},
                                   "item_id": {"values": ROWS, "missing": 0, "missing_share": 0.0}})
        self.assertIn(warning, self.succeed(self.predict(other, self.out / "p.csv")).stderr)
        trained = run("train", "--config", self.config, "--model-dir", self.out / "m", "--set", f"eval_input_path={other}")
        self.assertIn(warning, self.succeed(trained).stderr)

    def test_values_of_sequences_are_counted_as_theirs(self):
        config, model = self.out / "clicks.config", self.out / "clicks"
        config.write_text(CLICKS.format(data=self.out / "clicks.csv", model=model))

        def write(name, clicks):
            lines = [f"{i % 2},i{i % 10},{clicks(i)}" for i in range(200)]
            (self.out / name).write_text("\n".join(["label,item,clicks__item", *lines, ""]))
            return self.out / name

        write("clicks.csv", lambda i: f"i{i % 10}|i{(i + 3) % 10}")
        self.succeed(run("train", "--config", config))
        other = write("other.csv", lambda i: f"i{i % 10}|new|i{(i + 1) % 10}|new")
        done = self.succeed(run("eval", "--checkpoint", model, "--input", other, "--json", self.out / "e.json"))
        self.assertIn("warning: values without a row in their table: clicks__item 50.0 %;", done.stderr)
        lookups = json.loads((self.out / "e.json").read_text())["lookups"]
        self.assertEqual(lookups, {"item": {"values": 200, "missing": 0, "missing_share": 0.0},
                                   "clicks__item": {"values": 800, "missing": 400, "missing_share": 0.5}})

    def test_known_values_are_not_reported(self):
        source = self.folder / "train.csv"
        for process in (self.trained, self.evaluate(source), self.predict(source, self.out / "p.csv")):
            self.assertNotIn("without a row", self.succeed(process).stderr)

    def test_values_that_training_did_not_admit_are_reported(self):
        process = run("train", "--config", self.config, "--model-dir", self.out / "m", "--set",
                      "feature_configs[0].id_feature.dynamicemb.frequency_admission_strategy={threshold: 1000}")
        self.assertIn("warning: training: values without a row in their table: user_id 100.0 %", self.succeed(process).stderr)

    # ---- where results are written ----

    def test_standard_output_has_the_predictions_alone(self):
        expected = ["prediction", *self.predictions(self.folder / "train.csv")]
        for name in ("-", "/dev/stdout"):
            process = self.succeed(self.predict(self.folder / "train.csv", name))
            self.assertEqual(process.stdout.splitlines(), expected)
            self.assertIn(f"wrote {ROWS} predictions to standard output", process.stderr)
            evaluated = self.succeed(self.evaluate(self.folder / "train.csv", "--json", name))
            self.assertEqual(json.loads(evaluated.stdout)["rows"], ROWS)
            self.assertIn("auc", evaluated.stderr)
        bench = self.succeed(run("bench", "tables", "--rows", 1000, "--batch", 100, "--json", "-"))
        self.assertTrue(json.loads(bench.stdout))

    def test_links_pipes_and_devices_stay(self):
        expected = "\n".join(["prediction", *self.predictions(self.folder / "train.csv"), ""])
        (self.out / "target").write_text("old")
        (self.out / "link").symlink_to("target")
        self.succeed(self.predict(self.folder / "train.csv", self.out / "link"))
        self.assertTrue((self.out / "link").is_symlink())
        self.assertEqual((self.out / "target").read_text(), expected)
        os.mkfifo(self.out / "pipe")
        read = []
        reader = threading.Thread(target=lambda: read.append((self.out / "pipe").read_text()))
        reader.start()
        self.succeed(self.predict(self.folder / "train.csv", self.out / "pipe"))
        reader.join()
        self.assertEqual(read, [expected])
        self.assertTrue((self.out / "pipe").is_fifo())
        self.succeed(self.predict(self.folder / "train.csv", "/dev/null"))
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())
        self.succeed(self.evaluate(self.folder / "train.csv", "--json", self.out / "link"))
        self.assertEqual(json.loads((self.out / "target").read_text())["rows"], ROWS)
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["link", "pipe", "plain.csv", "target"])

    def test_what_is_read_is_not_written(self):
        source = self.out / "in"
        source.mkdir()
        shutil.copy(self.folder / "train.csv", source / "a.csv")
        shutil.copy(self.config, self.out / "pipeline.config")
        (self.out / "link.csv").symlink_to("in/a.csv")
        os.link(source / "a.csv", self.out / "twin.csv")
        before, learned = files_of(self.out), files_of(self.model)
        config = ["--config", self.out / "pipeline.config"]
        for out in (source / "a.csv", self.out / "link.csv", self.out / "twin.csv", source / "new.csv", self.out / "pipeline.config",
                    self.checkpoint / "dense.safetensors", self.checkpoint / "tables/new.csv"):
            for inputs in (source, f"{source}/*.csv"):
                self.refuse(self.predict(inputs, out, *config), "--out", str(out), "give a")
                self.refuse(self.evaluate(inputs, "--json", out, *config), "--json", str(out), "give a")
        self.assertEqual(files_of(self.out), before)
        self.assertEqual(files_of(self.model), learned)

    def test_rows_held_out_are_an_input_too(self):
        data = self.out / "data.csv"
        shutil.copy(self.folder / "train.csv", data)
        model = self.out / "m"
        self.succeed(run("train", "--config", self.config, "--model-dir", model, "--set", f"train_input_path={data}",
                         "--set", "eval_input_path=", "--set", "data_config.holdout_ratio=0.2"))
        self.refuse(run("eval", "--checkpoint", model, "--json", data), "is also the input")
        self.assertEqual(data.read_bytes(), (self.folder / "train.csv").read_bytes())

    def test_ctrl_c_leaves_nothing(self):
        data = (self.folder / "train.csv").read_text()
        header, _, lines = data.partition("\n")
        big = self.folder / "big.csv"
        big.write_text(header + "\n" + lines * 200)
        source = ",".join([str(big)] * 20)  # millions of batches
        process = subprocess.Popen([EMBLEM, "predict", "--checkpoint", self.model, "--input", source, "--out", self.out / "p.csv",
                                    "--set", "data_config.eval_batch_size=1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertTrue(becomes_true(lambda: any(self.out.iterdir())))
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130, error)
        self.assertIn("p.csv was not written", error)
        self.assertEqual(list(self.out.iterdir()), [])

    def test_places_that_cannot_be_written(self):
        (self.out / "file").write_text("")
        source = self.folder / "train.csv"
        for out in (self.out / "file/p.csv", self.out / "none/p.csv", self.out):
            self.refuse(self.predict(source, out), f"cannot write {out}")
            self.refuse(run("report", self.model, "--out", out), f"cannot write {out}")
        self.refuse(self.predict(source, ""), "the name of an output file is empty")
        for out in (self.out / "file", self.out / "file/repository/m"):
            self.refuse(run("export", "--checkpoint", self.model, "--out", out), f"cannot make the folder {out}: Not a directory")

    # ---- which model ----

    def test_the_checkpoint_is_named(self):
        for process in (self.evaluate(self.folder / "train.csv"), self.predict(self.folder / "train.csv", self.out / "p.csv")):
            self.assertIn(f"read {self.checkpoint} (step {self.checkpoint.name.split('-')[1]})", self.succeed(process).stderr)

    def test_a_report_shows_the_result_of_the_restored_weights(self):
        inverted = self.write("inverted.csv", [[str(1 - int(row[0])), *row[1:]] for row in rows()])
        model = self.out / "m"
        trained = run("train", "--config", self.config, "--model-dir", model, "--set", f"eval_input_path={inverted}",
                      "--set", "train_config.num_epochs=20", "--set", "train_config.eval_epochs=1",
                      "--set", 'train_config.early_stopping={metric: "auc" patience: 3 restore_best: true}')
        self.assertIn("restored the best weights", self.succeed(trained).stderr)
        lines = [json.loads(line) for line in (model / "train_eval_result.jsonl").read_text().splitlines()]
        self.assertIn("restored_step", lines[-1])
        self.assertNotEqual(f'{lines[-1]["auc"]:.4f}', f'{lines[-2]["auc"]:.4f}')
        self.succeed(run("report", model, "--out", self.out / "r.html", "--markdown", self.out / "r.md"))
        result = next(line for line in (self.out / "r.md").read_text().splitlines() if line.startswith("| training | m |"))
        self.assertIn(f'| {lines[-1]["auc"]:.4f} |', result)
        evaluated = self.succeed(run("eval", "--checkpoint", model))
        self.assertIn(f'auc {lines[-1]["auc"]:.6f}', evaluated.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
