"""A model with two labels, a vocabulary file and sessions: what its checkpoints, predictions and requests need."""

import csv
import json
import pathlib
import random
import shutil
import tempfile
import urllib.error
import urllib.request

import unittest

from harness import EmblemTest, Server, run

PIPELINE = """
train_input_path: "{data}/train.csv"
eval_input_path: "{data}/train.csv"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.1 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.01 }} }}
  num_epochs: 2
  save_checkpoints_steps: 0
}}
data_config {{ dataset_type: CsvDataset fg_mode: FG_DAG with_header: true batch_size: 32 label_fields: ["clk", "buy"] }}
feature_configs {{
  id_feature {{
    feature_name: "kind" vocab_file: "kinds.txt" asset_dir: "{data}" default_bucketize_value: 0 embedding_dim: 4
  }}
}}
feature_configs {{ id_feature {{ feature_name: "session" hash_bucket_size: 100000 }} }}
feature_configs {{ raw_feature {{ feature_name: "price" }} }}
model_config {{
  feature_groups {{ group_name: "all" feature_names: ["kind", "price"] }}
  mmoe {{
    expert_mlp {{ hidden_units: 8 }} num_expert: 2
    task_towers {{
      tower_name: "ctr" label_name: "clk" num_class: 2 losses {{ jrc_loss {{ session_name: "session" }} }}
      metrics {{ grouped_auc {{ grouping_key: "session" }} }}
    }}
    task_towers {{ tower_name: "cvr" label_name: "buy" losses {{ binary_cross_entropy {{}} }} metrics {{ auc {{}} }} }}
  }}
}}
"""
KINDS = ["bag", "hat", "shoe", "tie"]


class MultiTask(EmblemTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        cls.config = cls.write_config("pipeline.config", PIPELINE.format(data=cls.folder))
        cls.write_vocabulary(KINDS)
        chance = random.Random(1)
        rows = [(chance.choice(KINDS), f"s{row // 8}", round(chance.random(), 3)) for row in range(400)]
        lines = [f"{int(kind == 'hat')},{int(kind == 'hat' and price > 0.5)},{kind},{session},{price}"
                 for kind, session, price in rows]
        (cls.folder / "train.csv").write_text("clk,buy,kind,session,price\n" + "\n".join(lines) + "\n")
        cls.asked = cls.folder / "asked.csv"
        cls.asked.write_text("kind,price\n" + "\n".join(f"{kind},{price}" for kind, _, price in rows[:20]) + "\n")

    @classmethod
    def write_vocabulary(cls, words):
        (cls.folder / "kinds.txt").write_text("\n".join(words) + "\n")

    def setUp(self):
        self.write_vocabulary(KINDS)

    def predict(self, checkpoint, *options, cwd=None):
        out = self.folder / "predictions.csv"
        made = self.succeed(run("predict", "--checkpoint", checkpoint, "--input", self.asked, "--out", out, *options,
                                cwd=cwd))
        return out.read_text(), made.stderr

    def test_a_checkpoint_has_the_files_that_its_features_read(self):
        model = self.folder / "model"
        self.succeed(self.train(model))
        before, _ = self.predict(model)
        self.write_vocabulary(reversed(KINDS))
        self.assertEqual(self.predict(model, cwd="/")[0], before, "the vocabulary is that of the training")
        (self.folder / "kinds.txt").unlink()
        moved = self.folder / "moved"
        shutil.move(model, moved)
        self.assertEqual(self.predict(moved, cwd="/")[0], before)
        self.succeed(run("export", "--checkpoint", moved, "--out", self.folder / "models/exported"))
        server = Server(self.folder / "models", cwd="/")
        self.addCleanup(server.stop)
        rows = list(csv.DictReader(self.asked.read_text().splitlines()))
        answer = self.ask(server, rows)
        expected = [float(row["probs_cvr"]) for row in csv.DictReader(before.splitlines())]
        self.assertEqual([f"{value:.5g}" for value in answer["probs_cvr"]], [f"{value:.5g}" for value in expected])

    def ask(self, server, rows, outputs=()):
        inputs = [{"name": "kind", "datatype": "BYTES", "shape": [len(rows), 1], "data": [row["kind"] for row in rows]},
                  {"name": "price", "datatype": "FP32", "shape": [len(rows), 1],
                   "data": [float(row["price"]) for row in rows]}]
        body = {"inputs": inputs, "outputs": [{"name": name} for name in outputs]}
        if not outputs:
            del body["outputs"]
        with urllib.request.urlopen(f"http://{server.http}/v2/models/exported/infer", json.dumps(body).encode()) as response:
            return {output["name"]: output["data"] for output in json.load(response)["outputs"]}

    def test_requests_need_no_sessions_and_name_outputs_once(self):
        model = self.folder / "served"
        self.succeed(self.train(model))
        repository = self.folder / "repository"
        self.succeed(run("export", "--checkpoint", model, "--out", repository / "exported"))
        server = Server(repository)
        self.addCleanup(server.stop)
        rows = list(csv.DictReader(self.asked.read_text().splitlines()))
        self.assertEqual(list(self.ask(server, rows, ["probs_cvr"])), ["probs_cvr"])
        answer = self.ask(server, rows, ["probs_ctr", "probs1_ctr"])
        self.assertEqual(answer["probs_ctr"][1::2], answer["probs1_ctr"])
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.ask(server, rows, ["probs_cvr", "probs_cvr"])
        self.assertEqual(refused.exception.code, 400)
        self.assertIn("requested twice", refused.exception.read().decode())

    def test_a_resume_may_change_metrics_of_towers_but_no_vocabulary(self):
        model = self.folder / "resumed"
        self.succeed(self.train(model, "--max-steps", 5))
        self.write_vocabulary(reversed(KINDS))
        self.fail_with(self.train(model, "--resume"), "with other settings", "vocab_file")
        self.write_vocabulary(KINDS)
        self.succeed(self.train(model, "--resume", "--set",
                                "model_config.mmoe.task_towers[1].metrics=[{auc{thresholds: 0}}, {log_loss{}}]"))

    def test_predictions_with_other_settings_are_warned_of(self):
        model = self.folder / "warned"
        self.succeed(self.train(model, "--max-steps", 5))
        _, messages = self.predict(model, "--config", self.config, "--set", "data_config.batch_size=16")
        self.assertNotIn("warning", messages)
        _, messages = self.predict(model, "--set", "feature_configs[2].raw_feature.normalizer=method=log1p")
        self.assertIn("was trained with other settings", messages)
        self.assertIn("feature_configs[2].raw_feature.normalizer", messages)


if __name__ == "__main__":
    unittest.main()
