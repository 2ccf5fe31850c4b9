"""Steps whose gradients overflow in fp16: they are counted, and a run of nothing else fails."""

import json
import os
import unittest

from harness import EmblemTest, gpu_is_missing, run


class Overflow(EmblemTest):
    rows = 2000

    def train_with_overflows(self, name, steps, *options):
        return run("train", "--config", self.config, "--model-dir", self.folder / name, *options,
                   env={**os.environ, "EMBLEM_TEST_OVERFLOW_STEPS": steps})

    def test_skipped_steps_are_counted(self):
        out = self.folder / "some.json"
        done = self.succeed(self.train_with_overflows("some", "2,4", "--json", out, "--set",
                                                      "train_config.log_step_count_steps=1"))
        self.assertIn("skipped     2 steps, whose gradients overflowed in fp16", done.stdout)
        self.assertEqual(json.loads(out.read_text())["settings"]["skipped_steps"], 2)
        lines = [json.loads(line) for line in (self.folder / "some/train_log.jsonl").read_text().splitlines()]
        self.assertEqual([line.get("skipped_steps", 0) for line in lines[:5]], [0, 1, 1, 2, 2])

    def test_a_run_that_only_skips_fails(self):
        for options in ([], ["--set", "train_config.gradient_accumulation_steps=2"]):
            done = self.train_with_overflows("none" + str(len(options)), "all", *options)
            self.fail_with(done, "all 8 steps were skipped", "overflowed in fp16", "init_scale", "--precision bf16")

    def test_a_resumed_run_that_only_skips_warns(self):
        self.succeed(self.train_with_overflows("resumed", "7", "--max-steps", 6))
        done = self.succeed(self.train_with_overflows("resumed", "7,8", "--resume"))
        self.assertIn("all 2 steps were skipped", done.stderr)

    def test_a_resumed_run_that_only_skips_at_a_static_scale_fails(self):
        static = ["--set", "train_config.grad_scaler={init_scale: 1e9 growth_interval: 0}"]
        self.succeed(self.train_with_overflows("static", "7", "--max-steps", 6, *static))
        done = self.train_with_overflows("static", "7,8", "--resume", *static)
        self.fail_with(done, "all 2 steps were skipped", "growth_interval above 0")

    def test_fp16_with_a_scale_that_never_fits(self):
        if gpu_is_missing():
            self.skipTest("needs a GPU")
        done = run("train", "--config", self.config, "--model-dir", self.folder / "scale", "--device", "cuda",
                   "--precision", "fp16", "--set", "train_config.grad_scaler={init_scale: 1e9 growth_interval: 0}")
        self.fail_with(done, "all 8 steps were skipped", "the loss scale is 1e+09")


if __name__ == "__main__":
    unittest.main(verbosity=2)
