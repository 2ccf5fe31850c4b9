"""Synthesize, train, evaluate, predict, inspect: what a new user does."""

import json
import re
import struct
import unittest

from harness import SOURCE, EmblemTest, run


class Cycle(EmblemTest):
    def test_every_shipped_pipeline_is_valid(self):
        """They fail only because their data are missing."""
        configs = sorted((SOURCE / "configs").rglob("*.config"))
        self.assertGreater(len(configs), 8)
        for config in configs:
            self.fail_with(run("bench", "loader", "--config", config, "--set", "train_input_path=/nowhere"), "cannot read /nowhere")

    def test_a_model_is_trained_evaluated_and_used(self):
        model = self.folder / "cycle"
        trained = self.succeed(self.train(model))
        self.assertIn("finished after", trained.stdout)
        durations = re.findall(r"[\d.]+ (?:ms|s|min|h)\b", trained.stdout)
        self.assertEqual(len(durations), 1, trained.stdout)

        metadata = json.loads((self.data / "metadata.json").read_text())
        result = json.loads((model / "train_eval_result.jsonl").read_text().splitlines()[-1])
        self.assertGreater(result["auc"], 0.70)
        self.assertLess(result["auc"], metadata["best_auc"] + 0.01)

        out = self.folder / "eval.json"
        self.succeed(run("eval", "--checkpoint", model, "--json", out))
        evaluated = json.loads(out.read_text())
        self.assertEqual(evaluated["rows"], 5000)
        self.assertAlmostEqual(evaluated["auc"], result["auc"], places=12)
        self.assertAlmostEqual(evaluated["log_loss"], result["log_loss"], places=12)

        predictions = self.folder / "predictions.csv"
        self.succeed(run("predict", "--checkpoint", model, "--input", self.data / "test", "--out", predictions))
        lines = predictions.read_text().splitlines()
        self.assertEqual(lines[0], "prediction")
        self.assertEqual(len(lines), 5001)
        scores = [float(line) for line in lines[1:]]
        self.assertTrue(all(0 < score < 1 for score in scores))
        self.assertAlmostEqual(sum(scores) / len(scores), metadata["label_mean"], delta=0.05)

        inspected = self.succeed(run("inspect", model))
        self.assertIn("all verified", inspected.stdout)
        self.assertIn("C26_emb", inspected.stdout)
        self.assertIn("dlrm", inspected.stdout)
        self.assertIn("I13", self.succeed(run("inspect", self.data / "train")).stdout)

    def test_predictions_need_no_labels(self):
        model = self.folder / "unlabelled"
        self.succeed(self.train(model, "--max-steps", "20"))
        rows = next((self.data / "test").glob("*")).read_text().splitlines()[:300]
        predictions = {}
        for name, label in (("known", None), ("empty", ""), ("other", "7"), ("words", "n/a")):
            data, out = self.folder / f"{name}.tsv", self.folder / f"{name}.csv"
            data.write_text("".join(row + "\n" if label is None else label + row[row.index("\t"):] + "\n"
                                    for row in rows))
            self.succeed(run("predict", "--checkpoint", model, "--input", data, "--out", out))
            predictions[name] = out.read_text()
        self.assertEqual(len(predictions["known"].splitlines()), 301)
        self.assertEqual(len(set(predictions.values())), 1)

    def test_predictions_need_no_column_of_labels_in_csv(self):
        model = self.folder / "csv-model"
        csv = self.folder / "csv"
        self.succeed(run("convert", "--from", self.data / "test", "--to", csv, "--format", "csv"))
        labelled = next(csv.glob("*.csv"))
        self.succeed(self.train(model, "--max-steps", "5", "--set", f"train_input_path={labelled}",
                                "--set", f"eval_input_path={labelled}", "--set", "data_config.dataset_type=CsvDataset",
                                "--set", "data_config.with_header=true", "--set", "data_config.label_fields=[label]"))
        unlabelled = self.folder / "unlabelled.csv"
        rows = labelled.read_text().splitlines()
        self.assertTrue(rows[0].startswith("label,"))
        unlabelled.write_text("".join(row.split(",", 1)[1] + "\n" for row in rows))
        out = self.folder / "csv-predictions.csv"
        self.succeed(run("predict", "--checkpoint", model, "--input", unlabelled, "--out", out))
        self.assertEqual(len(out.read_text().splitlines()), len(rows))

    def test_tables_are_in_the_layout_that_hps_reads(self):
        model = self.folder / "hps"
        self.succeed(self.train(model, "--max-steps", "20"))
        table = next((model / "model.ckpt-20" / "tables").glob("C1_emb"))
        keys = (table / "key").read_bytes()
        vectors = (table / "emb_vector").read_bytes()
        rows = len(keys) // 8
        self.assertGreater(rows, 0)
        self.assertEqual(len(vectors), rows * 8 * 4)
        values = struct.unpack(f"<{rows}q", keys)
        self.assertEqual(sorted(values), list(values))

    def test_event_files_and_logs_are_written(self):
        model = self.folder / "events"
        self.succeed(self.train(model, "--max-steps", "100"))
        self.assertEqual(len(list(model.glob("events.out.tfevents.*"))), 1)
        line = json.loads((model / "train_log.jsonl").read_text().splitlines()[0])
        self.assertEqual(line["global_step"], 100)
        self.assertGreater(line["samples_per_second"], 0)

    def test_training_stops_at_a_goal(self):
        model = self.folder / "goal"
        trained = self.succeed(self.train(model, "--stop-at", "auc=0.6", "--set", "train_config.eval_steps=20"))
        self.assertIn("target reached", trained.stdout)
        steps = json.loads((model / "train_eval_result.jsonl").read_text().splitlines()[-1])["global_step"]
        self.assertLess(steps, 200)

    def test_every_model_learns(self):
        from models import MODELS, config_for
        for name in MODELS:
            with self.subTest(model=name):
                config = self.write_config(f"{name}.config", config_for(name, self.data, self.folder / name))
                self.succeed(run("train", "--config", config))
                result = json.loads((self.folder / name / "train_eval_result.jsonl").read_text().splitlines()[-1])
                self.assertGreater(result["auc"], 0.68, name)

    def test_all_formats_train_the_same_model(self):
        """Raw and split hold the same values as tsv (without missing values), so the result has the same bytes."""
        tables = {}
        data = self.folder / "whole"
        self.succeed(run("synth", "--preset", "criteo", "--rows", 4000, "--test-rows", 500, "--scale", "0.01",
                         "--missing-dense", "0", "--missing-sparse", "0", "--format", "tsv", "--out", data))
        for format_name, dataset in (("tsv", "CriteoTsvDataset"), ("raw", "RawDataset"), ("split", "SplitDataset")):
            train, test = data / "train", data / "test"
            if format_name != "tsv":
                train, test = self.folder / f"{format_name}-train", self.folder / f"{format_name}-test"
                self.succeed(run("convert", "--from", data / "train", "--to", train, "--format", format_name))
                self.succeed(run("convert", "--from", data / "test", "--to", test, "--format", format_name))
            model = self.folder / f"model-{format_name}"
            self.succeed(self.train(model, "--set", f"data_config.dataset_type={dataset}",
                                    "--set", "data_config.shuffle=false",
                                    "--set", f"train_input_path={train}", "--set", f"eval_input_path={test}"))
            checkpoint = next(model.glob("model.ckpt-*"))
            tables[format_name] = (checkpoint / "tables" / "C1_emb" / "emb_vector").read_bytes()
        self.assertEqual(tables["tsv"], tables["raw"])
        self.assertEqual(tables["tsv"], tables["split"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
