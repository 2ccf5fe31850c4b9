"""Real-world input: several labels, text labels, missing values, compressed files."""

import gzip
import pathlib
import random
import shutil
import subprocess
import tempfile
import unittest

from harness import learned_files, run

PIPELINE = """
train_input_path: "{data}"
eval_input_path: "{data}"
model_dir: "{folder}/model"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.2 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.01 }} }}
  num_epochs: 3
  save_checkpoints_steps: 0
}}
data_config {{ with_header: true fg_mode: FG_DAG batch_size: 64 num_workers: 2 shuffle: true {settings} }}
feature_configs {{ id_feature {{ feature_name: "city" hash_bucket_size: 50 embedding_dim: 4 }} }}
feature_configs {{ raw_feature {{ feature_name: "age" normalizer: "method=zscore,mean=40,standard_deviation=20" default_value: "0" }} }}
model_config {{
  feature_groups {{ group_name: "all" feature_names: "city" feature_names: "age" }}
  dnn {{ deep {{ hidden_units: [16] }} }}
  metrics {{ {metric} }}
}}
"""


class Input(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def rows(self):
        """(clk, buy, city, age): clk follows the city, buy is drawn."""
        chance = random.Random(4)
        for _ in range(3000):
            city = chance.choice("abcdefgh")
            yield int(city < "e"), chance.randint(0, 1), city, chance.randint(18, 80)

    def write(self, name, lines):
        path = self.folder / name
        path.write_text("".join(line + "\n" for line in lines))
        return path

    def train(self, data, settings, *options, metric="auc { thresholds: 0 }", **kwargs):
        config = self.folder / "pipeline.config"
        config.write_text(PIPELINE.format(data=data, folder=self.folder, settings=settings, metric=metric))
        shutil.rmtree(self.folder / "model", ignore_errors=True)
        return run("train", "--config", config, *options, **kwargs)

    def auc(self, process):
        self.assertEqual(process.returncode, 0, process.stderr)
        line = next(line for line in process.stdout.splitlines() if "evaluation" in line)
        return float(line.split()[-1])

    def test_the_first_of_several_labels_is_learned(self):
        data = self.write("two.csv", ["clk,buy,city,age"] + [",".join(map(str, row)) for row in self.rows()])
        one = self.auc(self.train(data, 'label_fields: "clk"'))
        process = self.train(data, 'label_fields: "clk" label_fields: "buy"')
        self.assertGreater(one, 0.9)
        self.assertEqual(self.auc(process), one)
        self.assertIn('warning: data_config.label_fields names 2 columns; the model learns the first, "clk"', process.stderr)

    def test_text_labels_and_missing_values(self):
        rows = list(self.rows())
        plain = self.write("plain.csv", ["label,city,age"] + [f"{clk},{city},{age if age < 60 else ''}" for clk, _, city, age in rows])
        words = self.write("words.csv", ["label,city,age"] +
                           [f"{'True' if clk else 'False'},{city},{age if age < 60 else 'NA'}" for clk, _, city, age in rows])
        texts = self.write("texts.csv", ["label,city,age"] +
                           [f"{' 50000+.' if clk else ' - 50000.'},{city},{age if age < 60 else '?'}" for clk, _, city, age in rows])
        expected = self.auc(self.train(plain, 'label_fields: "label"'))
        self.assertEqual(self.auc(self.train(words, 'label_fields: "label"')), expected)
        self.assertEqual(self.auc(self.train(texts, 'label_fields: "label" label_positive: "50000+." na_strings: "?"')), expected)

    def test_a_compressed_file_trains_the_same_model(self):
        data = self.write("a.csv", ["label,city,age"] + [f"{clk},{city},{age}" for clk, _, city, age in self.rows()])
        models = []
        for path in (data, self.folder / "a.csv.gz", self.folder / "a.csv.zst"):
            if path.suffix == ".gz":
                path.write_bytes(gzip.compress(data.read_bytes()))
            elif path.suffix == ".zst":
                if shutil.which("zstd") is None:
                    continue
                subprocess.run(["zstd", "-q", data, "-o", path], check=True)
            process = self.train(path, 'label_fields: "label"')
            self.assertEqual(process.returncode, 0, process.stderr)
            models.append(learned_files(next((self.folder / "model").glob("model.ckpt-*"))))
        for model in models[1:]:
            self.assertEqual(model, models[0])

    def test_csv_files_are_inspected(self):
        data = self.write("a.csv", ["label,city,age"] + [f"{clk},{city},{age}" for clk, _, city, age in self.rows()])
        packed = self.folder / "a.csv.gz"
        packed.write_bytes(gzip.compress(data.read_bytes()))
        for path in (data, packed):
            process = run("inspect", path)
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertIn("rows     3000", process.stdout)
            self.assertRegex(process.stdout, r"city +text")

    def test_a_truncated_archive_is_named(self):
        data = self.folder / "a.csv.gz"
        data.write_bytes(gzip.compress(b"label,city,age\n" + b"1,a,20\n" * 1000)[:-20])
        process = self.train(data, 'label_fields: "label"')
        self.assertEqual(process.returncode, 1)
        self.assertIn("a.csv.gz is a truncated gzip file", process.stderr)

    def test_metrics_are_checked_before_training(self):
        data = self.write("a.csv", ["label,city,age"] + [f"{clk},{city},{age}" for clk, _, city, age in self.rows()])
        for metric, options, parts in (
                ("auc {}", ["--set", "train_config.early_stopping.metric=ndcg"], ['early_stopping.metric is "ndcg"', "auc"]),
                ("auc {}", ["--set", "train_config.dense_optimizer.reduce_on_plateau_learning_rate.metric=x"], ["reduce_on_plateau"]),
                ("auc {}", ["--stop-at", "ndcg=0.5"], ['the metric of --stop-at is "ndcg"']),
                ('grouped_auc { grouping_key: "town" }', [], ['no feature "town"']),
                ('grouped_auc { grouping_key: "age" }', [], ['grouping_key "age"', "id_feature"]),
                ("grouped_auc {}", [], ["grouping_key"]),
                ("recall_at_k {}", [], ["recall_at_k"])):
            process = self.train(data, 'label_fields: "label"', *options, metric=metric)
            self.assertEqual(process.returncode, 1, (metric, options))
            for part in parts:
                self.assertIn(part, process.stderr)
            self.assertNotIn("training:", process.stderr)
            self.assertFalse((self.folder / "model").exists(), "before anything is made")

    def test_a_binned_auc_says_so(self):
        data = self.write("a.csv", ["label,city,age"] + [f"{clk},{city},{age}" for clk, _, city, age in self.rows()])
        process = self.train(data, 'label_fields: "label"', metric="auc {}")
        self.assertIn("auc is binned: computed at 200 thresholds", process.stderr)
        self.assertIn("auc is binned", run("eval", "--checkpoint", self.folder / "model").stderr)
        self.assertNotIn("binned", self.train(data, 'label_fields: "label"').stderr)

    def test_names_do_not_leave_the_checkpoint(self):
        data = self.write("a.csv", ["label,city,age"] + [f"{clk},{city},{age}" for clk, _, city, age in self.rows()])
        for name in ("../../evil", "a/b", "n" * 300):
            process = self.train(data, 'label_fields: "label"', "--set", f"feature_configs[0].id_feature.embedding_name={name}")
            self.assertEqual(process.returncode, 1, name[:20])
            self.assertIn("it names files", process.stderr)
            self.assertFalse((self.folder / "model").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
