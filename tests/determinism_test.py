"""The same seed gives the same bytes with any number of threads and workers, and after a resume."""

import json
import signal
import subprocess
import unittest

from harness import EMBLEM, EmblemTest, becomes_true, files_of, learned_files


class Determinism(EmblemTest):
    def checkpoint(self, model, step):
        return self.folder / model / f"model.ckpt-{step}"

    def manifest(self, model, step):
        """The manifest of a checkpoint without what depends on its pipeline file, which may differ."""
        manifest = json.loads((self.checkpoint(model, step) / "manifest.json").read_text())
        del manifest["checksum"]
        del manifest["files"]["pipeline.config"]
        return manifest

    def test_a_resumed_run_gives_the_same_bytes(self):
        self.succeed(self.train(self.folder / "whole", "--max-steps", "200"))
        self.succeed(self.train(self.folder / "parts", "--max-steps", "100"))
        self.succeed(self.train(self.folder / "parts", "--max-steps", "200", "--resume"))
        whole, parts = (files_of(self.checkpoint(model, 200)) for model in ("whole", "parts"))
        self.assertEqual(whole.keys(), parts.keys())
        for name in whole:  # including manifest.json and pipeline.config
            self.assertEqual(whole[name], parts[name], name)
        self.assertGreater(len(learned_files(self.checkpoint("whole", 200))), 26 * 4)

    def test_threads_and_workers_do_not_matter(self):
        expected = None
        for threads, workers in ((1, 1), (2, 2), (3, 1)):
            model = f"t{threads}w{workers}"
            self.succeed(self.train(self.folder / model, "--max-steps", "60", "--threads", threads,
                                    "--set", f"data_config.num_workers={workers}"))
            found = learned_files(self.checkpoint(model, 60))
            found["manifest.json"] = self.manifest(model, 60)
            expected = expected or found
            self.assertEqual(expected, found, f"{threads} threads, {workers} workers")

    def test_another_seed_gives_other_bytes(self):
        for seed in (1, 2):
            self.succeed(self.train(self.folder / f"seed{seed}", "--max-steps", "5",
                                    "--set", f"train_config.seed={seed}"))
        self.assertNotEqual(learned_files(self.checkpoint("seed1", 5)), learned_files(self.checkpoint("seed2", 5)))

    def test_ctrl_c_saves_and_resume_continues_exactly(self):
        model = self.folder / "interrupted"
        process = subprocess.Popen([EMBLEM, "train", "--config", self.config, "--model-dir", model,
                                    "--set", "train_config.num_epochs=100"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        log = model / "train_log.jsonl"
        self.assertTrue(becomes_true(lambda: log.exists() and log.stat().st_size), "training did not start")
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130, error)
        self.assertIn("--resume", out)
        step = int(next(model.glob("model.ckpt-*")).name.split("-")[1])
        target = step + 30
        self.succeed(self.train(model, "--resume", "--max-steps", target, "--set", "train_config.num_epochs=100"))
        self.succeed(self.train(self.folder / "straight", "--max-steps", target, "--set", "train_config.num_epochs=100"))
        self.assertEqual(files_of(model / f"model.ckpt-{target}"), files_of(self.checkpoint("straight", target)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
