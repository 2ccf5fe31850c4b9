"""Pipelines that name tables of a service, run on files: --train-input, --eval-input, --define, --divide-tables."""

import pathlib
import random
import shutil
import tempfile
import unittest

from harness import run

PIPELINE = """
train_input_path: "odps://{PROJECT}/tables/train"
eval_input_path: "odps://{PROJECT}/tables/eval"
model_dir: "{PROJECT}/model"
train_config {
  sparse_optimizer { adagrad_optimizer { lr: 0.2 } constant_learning_rate {} }
  dense_optimizer { adam_optimizer { lr: 0.01 } constant_learning_rate {} }
  num_epochs: 2
}
data_config { dataset_type: OdpsDataset odps_data_quota_name: "quota" fg_mode: FG_DAG label_fields: "clk" batch_size: 64
              num_workers: 1 }
feature_configs { id_feature { feature_name: "city" expression: "user:city" hash_bucket_size: 1000 embedding_dim: 4 } }
feature_configs { raw_feature { feature_name: "age" expression: "user:age" } }
model_config {
  feature_groups { group_name: "all" feature_names: "city" feature_names: "age" wide_deep: DEEP }
  dnn { deep { hidden_units: [8] } }
  metrics { auc {} }
}
"""


class LocalFiles(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.config = self.folder / "pipeline.config"
        self.config.write_text(PIPELINE)
        draw = random.Random(1)
        rows = [(draw.randrange(2), f"city{draw.randrange(20)}", draw.random()) for _ in range(500)]
        self.data = self.folder / "data.tsv"
        self.data.write_text("clk\tcity\tage\n" + "".join(f"{a}\t{b}\t{c:.3f}\n" for a, b, c in rows))

    def train(self, *options):
        return run("train", "--config", self.config, "--model-dir", self.folder / "model", *options)

    def inputs(self):
        return ["--train-input", self.data, "--eval-input", self.data]

    def error(self, done):
        self.assertEqual(done.returncode, 1, done.stdout)
        lines = done.stderr.splitlines()
        self.assertTrue(lines[-1].startswith("emblem: "), done.stderr)
        return lines[-1]

    def test_a_pipeline_runs_on_files_in_another_format(self):
        done = self.train(*self.inputs())
        self.assertEqual(done.returncode, 0, done.stderr)
        stored = next((self.folder / "model").glob("model.ckpt-*/pipeline.config")).read_text()
        for line in ("dataset_type: CsvDataset", "with_header: true", 'delimiter: "\\t"'):
            self.assertIn(line, stored)
        evaluated = run("eval", "--checkpoint", self.folder / "model", "--config", self.config, *self.inputs())
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        predicted = run("predict", "--checkpoint", self.folder / "model", "--input", self.data, "--out",
                        self.folder / "predictions.csv")
        self.assertEqual(predicted.returncode, 0, predicted.stderr)

    def test_tables_of_a_service_are_refused(self):
        error = self.error(self.train("--define", "PROJECT=mine"))
        self.assertIn('train_input_path is "odps://mine/tables/train"', error)
        self.assertIn("--train-input", error)
        self.assertIn("--eval-input", self.error(self.train("--train-input", self.data)))

    def test_placeholders_are_replaced(self):
        done = run("train", "--config", self.config, "--define", f"PROJECT={self.folder}", *self.inputs())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(list((self.folder / "model").glob("model.ckpt-*")))
        self.assertIn("expected NAME=VALUE", self.error(self.train("--define", "PROJECT")))

    def test_divided_tables_are_recorded(self):
        done = self.train(*self.inputs(), "--divide-tables", 10)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("divide_tables is 10", done.stderr)
        stored = next((self.folder / "model").glob("model.ckpt-*/pipeline.config")).read_text()
        self.assertIn("divide_tables: 10", stored)
        evaluate = ["eval", "--checkpoint", self.folder / "model", "--config", self.config, *self.inputs()]
        done = run(*evaluate)
        self.assertEqual(done.returncode, 0, done.stderr)
        other = run(*evaluate, "--set", "train_config.divide_tables=3")
        self.assertIn("divide_tables 10, not 3", self.error(other))

    def test_files_without_a_reader_are_named(self):
        parquet = self.folder / "part-0.parquet"
        parquet.write_bytes(b"PAR1\0\0\0\0PAR1")
        error = self.error(self.train("--train-input", parquet, "--eval-input", self.data))
        self.assertIn("part-0.parquet: ", error)

    def test_what_is_not_supported_is_said_before_data_are_read(self):
        done = self.train("--train-input", "nowhere", "--set", "model_config.hstu_match={}")
        self.assertIn('model "hstu_match" is not supported yet', self.error(done))


if __name__ == "__main__":
    unittest.main()
