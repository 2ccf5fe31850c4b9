"""Checkpoints, exports and model repositories in object stores: written whole or not at all, resumed, served."""

import json
import shutil
import signal
import subprocess
import unittest

from harness import EMBLEM, Server, becomes_true, run
from remote_data_test import RemoteTest


class Models(RemoteTest):
    def steps(self, prefix="runs/1/"):
        """Of the checkpoints in the store that have a manifest."""
        return sorted(int(key.split("model.ckpt-")[1].split("/")[0]) for key in self.store.keys("out", prefix)
                      if key.endswith("/manifest.json") and "model.ckpt-" in key)

    def setUp(self):
        super().setUp()
        self.store.buckets["out"] = {}
        self.every = ["--set", "train_config.save_checkpoints_steps=10", "--set", "train_config.keep_checkpoint_max=2"]

    def options(self):
        return ["--endpoint", self.store.url, "--cache-dir", self.cache]

    def test_outputs_are_refused_where_they_do_not_belong(self):
        self.succeed(self.train("s3://out/runs/1", *self.local(), *self.options()))
        self.fail_with(run("export", "--checkpoint", "s3://out/runs/1", "--out", "s3://out/runs/1", *self.options()),
                       "s3://out/runs/1 is a model directory of training; give --out REPOSITORY/NAME")
        self.fail_with(run("predict", "--checkpoint", "s3://out/runs/1", "--input", self.split, "--out", "s3://out/scores.csv",
                           *self.options()), "cannot write s3://out/scores.csv: it is in a remote store; give a file on this machine")

    def test_of_two_exports_at_the_same_time_one_is_refused(self):
        self.succeed(self.train(self.models / "m", *self.local()))
        export = ["export", "--checkpoint", self.models / "m", "--out", "s3://out/models/ctr", *self.options()]
        self.store.fail("stall", match="PUT /out/models/ctr/1/")
        first = subprocess.Popen([EMBLEM, *map(str, export)], stdout=subprocess.PIPE, text=True)
        self.assertTrue(becomes_true(lambda: self.store.count("PUT", "/out/models/ctr/1/")))
        self.fail_with(run(*export), f"s3://out/models/ctr is in use by another export (process {first.pid} on ")
        self.store.release()
        self.assertIn("s3://out/models/ctr/1", first.communicate()[0])
        self.assertEqual(first.returncode, 0)
        self.assertIn("s3://out/models/ctr/2", self.succeed(run(*export)).stdout)

    def test_a_model_is_trained_killed_resumed_exported_and_served_in_a_store(self):
        for scheme in ("s3", "gs"):
            with self.subTest(scheme):
                self.setUp()
                self.check_cycle(scheme)

    def write_data(self, scheme):
        """The data set is written by the program: as Parquet by `synth`, whose rows `convert` makes text."""
        self.store.buckets["data"] = {}
        self.succeed(run("synth", "--rows", "20000", "--test-rows", "2000", "--scale", "0.01", "--format", "parquet", "--out",
                         f"{scheme}://out/made", *self.options()))
        self.assertIn("made/metadata.json", self.store.keys("out"))
        for part in ("train", "test"):
            self.succeed(run("convert", "--from", f"{scheme}://out/made/{part}/", "--to", f"{scheme}://data/{part}", "--format",
                             "tsv", "--bundle-gb", "0.0005", *self.options()))
        self.assertGreater(len(self.store.keys("data", "train/part-")), 1)

    def fail_now_and_then(self):
        """Requests of all kinds are refused, broken off or answered late, less often than they are tried again."""
        for kind, match in (("503", "GET /"), ("503", "HEAD /"), ("503", "PUT /"), ("503", "POST /"), ("cut", "train/"),
                            ("short", "test/")):
            self.store.fail(kind, times=2, match=match, bytes=5000)

    def check_cycle(self, scheme):
        self.write_data(scheme)
        whole = f"{scheme}://out/runs/whole"
        self.succeed(self.train(whole, *self.remote(*self.every, scheme=scheme)))
        model = f"{scheme}://out/runs/1"
        process = subprocess.Popen([EMBLEM, "train", "--config", self.config, "--model-dir", model,
                                    *map(str, self.remote(*self.every, scheme=scheme))], stderr=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL)
        self.assertTrue(becomes_true(lambda: self.steps() or process.poll() is not None))
        process.send_signal(signal.SIGKILL)
        process.wait()
        shutil.rmtree(self.cache)  # as on another machine
        self.fail_now_and_then()
        self.fail_with(self.train(model, *self.remote(*self.every, scheme=scheme)), "exists already; continue it with --resume")
        trained = self.succeed(self.train(model, *self.remote(*self.every, scheme=scheme), "--resume"))
        self.assertIn(f"{model}/model.ckpt-", trained.stdout)
        last = self.steps()[-1]
        self.assertEqual(last, self.steps("runs/whole/")[-1])
        self.assertLessEqual(len(self.steps()), 2)

        def learned(run_name):
            prefix = f"runs/{run_name}/model.ckpt-{last}/"
            return {key[len(prefix):]: self.store.get("out", key) for key in self.store.keys("out", prefix)
                    if "/tables/" in key or key.endswith("dense.safetensors")}
        self.assertTrue(learned("1"))
        self.assertEqual(learned("1"), learned("whole"))
        self.assertTrue(self.store.get("out", "runs/1/train_eval_result.jsonl"))

        evaluated = self.folder / "eval.json"
        self.succeed(run("eval", "--checkpoint", model, "--json", evaluated, *self.options(), "--eval-input",
                         f"{scheme}://data/test/"))
        self.assertEqual(json.loads(evaluated.read_text())["step"], last)
        self.assertIn("all verified", self.succeed(run("inspect", model, *self.options())).stdout)

        exported = self.succeed(run("export", "--checkpoint", model, "--out", f"{scheme}://out/models/ctr", *self.options()))
        self.assertIn(f"{scheme}://out/models/ctr/1", exported.stdout)
        self.assertIn("models/ctr/config.pbtxt", self.store.keys("out"))
        self.fail_now_and_then()
        server = Server(f"{scheme}://out/models", "--model-control-mode", "poll", "--repository-poll-secs", "0.2",
                        *self.options())
        try:
            self.assertEqual(server.get("/v2/models/ctr/versions/1/ready")[0], 200)
            self.succeed(run("export", "--checkpoint", model, "--out", f"{scheme}://out/models/ctr", *self.options()))
            self.assertTrue(becomes_true(lambda: server.get("/v2/models/ctr/versions/2/ready")[0] == 200))
        finally:
            self.assertEqual(server.stop(), 0)

    def test_manifests_are_uploaded_last_and_removed_first(self):
        self.succeed(self.train("s3://out/runs/1", *self.remote(*self.every), "--max-steps", "10"))
        self.succeed(self.train("s3://out/runs/1", *self.remote(*self.every), "--resume"))
        lines = [line for line in self.store.log if "/out/runs/1/model.ckpt-10/" in line]
        first = next(i for i, line in enumerate(lines) if line.startswith("PUT") and "manifest.json" in line)
        uploaded = {line for line in lines if line.startswith("PUT") and not line.endswith("/")}
        self.assertEqual({line for line in lines[:first + 1] if line.startswith("PUT")}, uploaded)
        removals = [line for line in lines if line.startswith("DELETE")]
        self.assertIn("manifest.json", removals[0])
        self.assertEqual([key for key in self.store.keys("out") if "model.ckpt-10/" in key], [])

    def test_a_store_that_fails_for_a_while_loses_no_checkpoint(self):
        self.store.fail("503", times=8, match="/dense.safetensors")  # as often as it is tried
        trained = self.succeed(self.train("s3://out/runs/1", *self.remote(*self.every)))
        self.assertIn("stays on this machine for now", trained.stderr)
        self.assertTrue(self.steps())

    def test_a_store_that_fails_to_the_end_is_an_error(self):
        self.store.fail("403", times=1000000, match="PUT /out/")
        self.fail_with(self.train("s3://out/runs/1", *self.remote()), "cannot write s3://out/runs/1/", "AWS_ACCESS_KEY_ID")
        self.assertEqual(self.steps(), [])

    def test_unfinished_checkpoints_are_not_read(self):
        self.succeed(self.train("s3://out/runs/1", *self.remote(*self.every)))
        for key in self.store.keys("out", "runs/1/model.ckpt-"):
            if key.endswith("manifest.json"):
                self.store.delete("out", key)
        self.fail_with(run("eval", "--checkpoint", "s3://out/runs/1", *self.options()), "there is no checkpoint in s3://out/runs/1")

    def test_bundles_are_written_to_a_store(self):
        for i, line in enumerate(self.lines[:500]):
            self.store.put("small", f"{i:04d}.tsv", line)
        self.succeed(run("convert", "--from", "s3://small/", "--to", "s3://out/bundles", "--format", "tsv", "--bundle-gb",
                         "0.0001", *self.options()))
        keys = self.store.keys("out", "bundles/part-")
        self.assertLess(len(keys), 10)
        self.assertEqual(b"".join(self.store.get("out", key) for key in keys), b"".join(self.lines[:500]))
        index = json.loads(self.store.get("out", "bundles/.index.json"))
        self.assertEqual(index["rows"], 500)
        self.assertEqual(index["sources"][7], {"path": "s3://small/0007.tsv", "first_row": 7, "rows": 1})
        self.assertEqual([f"bundles/{one['name']}" for one in index["files"]], keys)
        self.fail_with(run("convert", "--from", "s3://small/", "--to", "s3://out/bundles", "--format", "tsv", *self.options()),
                       "objects already")

    def test_an_output_is_not_among_its_inputs(self):
        self.store.put_folder("in", "rows/", self.split)

        def convert(source, to):
            return run("convert", "--from", source, "--to", to, "--format", "tsv", "--force", *self.options())
        self.fail_with(convert("s3://in/rows/", "s3://in/rows"), "--to s3://in/rows is also the input")
        self.fail_with(convert("s3://in/", "s3://in/new/"), "is inside the input s3://in/")
        self.fail_with(convert("s3://in/rows/part-[0-3].tsv", "s3://in/rows/"), "holds the input s3://in/rows/part-0.tsv")
        self.assertEqual(len(self.store.keys("in")), self.parts)
        self.succeed(convert("s3://in/rows/", "s3://in/rows2"))


if __name__ == "__main__":
    unittest.main()
