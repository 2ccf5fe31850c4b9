"""Backward compatibility: a checkpoint of Emblem 0.1 (tests/golden/semantics_1, with the predictions of that version) gives the
same predictions, evaluations, training steps and served answers in later versions."""

import csv
import http.client
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import EMBLEM, SOURCE, EmblemTest, run

GOLDEN = SOURCE / "tests/golden/semantics_1"
CHECKPOINT = GOLDEN / "model.ckpt-190"
ROWS = GOLDEN / "rows.csv"


def numbers(path):
    return [float(line) for line in pathlib.Path(path).read_text().splitlines()[1:]]


class OldCheckpoint(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.expected = numbers(GOLDEN / "predictions.csv")

    def check(self, predictions):
        self.assertEqual(len(predictions), len(self.expected))
        for found, expected in zip(predictions, self.expected):
            self.assertAlmostEqual(found, expected, delta=1e-5)

    def predict(self, checkpoint, *options):
        out = self.folder / "predictions.csv"
        process = run("predict", "--checkpoint", checkpoint, "--input", ROWS, "--out", out, *options)
        self.assertEqual(process.returncode, 0, process.stderr)
        return numbers(out)

    def test_is_predicted_as_then(self):
        self.check(self.predict(CHECKPOINT))

    def test_is_predicted_as_then_with_the_pipeline_it_was_trained_with(self):
        self.check(self.predict(CHECKPOINT, "--config", GOLDEN / "pipeline.config"))

    def test_is_evaluated_as_then(self):
        for options in ([], ["--config", GOLDEN / "pipeline.config"]):
            process = run("eval", "--checkpoint", CHECKPOINT, "--input", ROWS, *options)
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertIn("auc 0.835000  log_loss 0.50610", process.stdout)

    def test_cannot_be_given_another_meaning(self):
        for options in (["--set", "semantics_version=2"], ["--config", GOLDEN / "pipeline.config", "--set", "semantics_version=2"]):
            process = run("eval", "--checkpoint", CHECKPOINT, "--input", ROWS, *options)
            self.assertEqual(process.returncode, 1, process.stdout)
            self.assertIn("semantics_version", process.stderr)

    def test_is_trained_further_as_then(self):
        process = run("train", "--config", GOLDEN / "pipeline.config", "--init-from", CHECKPOINT, "--model-dir", self.folder / "model",
                      "--set", f"train_input_path={ROWS}", "--set", f"eval_input_path={ROWS}", "--max-steps", "1",
                      "--set", "train_config.sparse_optimizer={sgd_optimizer {lr: 0}}",
                      "--set", "train_config.dense_optimizer={sgd_optimizer {lr: 0}}")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("semantics_version 1", process.stderr)
        trained = self.folder / "model/model.ckpt-1"
        self.assertIn("semantics_version: 1", (trained / "pipeline.config").read_text())
        self.check(self.predict(trained))

    def test_is_exported_and_served_as_then(self):
        exported = run("export", "--checkpoint", CHECKPOINT, "--out", self.folder / "repository/old")
        self.assertEqual(exported.returncode, 0, exported.stderr)
        if run("serve", "--help").returncode != 0:
            self.skipTest("this program was compiled without a server")
        process = subprocess.Popen([EMBLEM, "serve", "--models", self.folder / "repository", "--address", "127.0.0.1", "--http-port",
                                    "0", "--grpc-port", "0", "--metrics-port", "0"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        text = ""
        for line in process.stdout:
            text += line
            if "ready" in line:
                break
        port = re.search(r"http\s+\S*?:(\d+)", text)
        self.assertTrue(port, text)
        self.check(self.ask(int(port.group(1))))

    def ask(self, port):
        rows = list(csv.DictReader(ROWS.read_text().splitlines()))

        def texts(name, width):
            values = [(row[name].split("|") + [""] * width)[:width] for row in rows]
            return {"name": name, "datatype": "BYTES", "shape": [len(rows), width], "data": values}

        cost = [float(row["cost"] or "nan") for row in rows]
        request = {"inputs": [{"name": "cost", "datatype": "FP32", "shape": [len(rows), 1], "data": cost},
                              texts("city", 1), texts("tags", 3), texts("user", 1)]}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.addCleanup(connection.close)
        connection.request("POST", "/v2/models/old/infer", json.dumps(request))
        answer = connection.getresponse()
        body = json.loads(answer.read())
        self.assertEqual(answer.status, 200, body)
        return body["outputs"][0]["data"]


class NewCheckpoint(EmblemTest):
    rows = 2000

    def test_records_what_it_means(self):
        model = self.folder / "recorded"
        self.succeed(self.train(model, "--max-steps", "2"))
        for path in (model / "pipeline.config", model / "model.ckpt-2/pipeline.config"):
            text = path.read_text()
            self.assertIn("semantics_version: 2", text)
            self.assertIn("fg_mode: FG_DAG", text)
        self.succeed(run("eval", "--checkpoint", model, "--config", self.config))
        other = ["--config", self.config, "--set", "data_config.fg_mode=FG_NONE"]
        message = self.fail_with(run("eval", "--checkpoint", model, *other), "model.ckpt-2", "fg_mode FG_DAG", "FG_NONE")
        self.assertIn("set data_config { fg_mode: FG_DAG }", message)
        self.fail_with(self.train(model, "--resume", "--set", "data_config.fg_mode=FG_NONE"), "fg_mode FG_DAG", "FG_NONE")

    def test_a_pipeline_without_fg_mode_warns(self):
        text = pathlib.Path(self.config).read_text().replace("fg_mode: FG_DAG", "")
        config = self.write_config("none.config", text)
        process = self.train(self.folder / "none", config=config)
        self.assertIn('warning: fg_mode is FG_NONE, so that normalizer of features "I1", "I2", "I3" and 10 more has no effect; '
                      "set data_config { fg_mode: FG_DAG } to apply it", process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
