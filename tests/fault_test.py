"""Killed processes and full disks: a valid checkpoint always exists."""

import random
import subprocess
import time
import unittest

from harness import EMBLEM, EmblemTest, files_of, learned_files, run


class Faults(EmblemTest):
    def wait_for_step(self, process, model, step):
        deadline = time.time() + 120
        while not any(int(path.name.split("-")[1]) >= step for path in model.glob("model.ckpt-*")):
            self.assertIsNone(process.poll(), "ended by itself")
            self.assertLess(time.time(), deadline, f"no checkpoint of step {step} in time")
            time.sleep(0.005)

    def test_kill_at_any_moment_leaves_a_good_checkpoint(self):
        model = self.folder / "killed"
        self.succeed(self.train(model, "--max-steps", "1"))
        moments = random.Random(1)
        for kill in range(30):
            process = subprocess.Popen(
                [EMBLEM, "train", "--config", self.config, "--model-dir", model, "--resume",
                 "--set", "train_config.save_checkpoints_steps=1", "--set", "train_config.num_epochs=1000",
                 "--set", "train_config.keep_checkpoint_max=2", "--set", "train_config.use_tensorboard=false"],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            # With a checkpoint at every step, nearly all of the time is spent writing them.
            self.wait_for_step(process, model, kill + 2)
            time.sleep(0.1 * moments.random())
            self.assertIsNone(process.poll(), f"ended by itself at kill {kill}")
            process.kill()
            process.wait()
            process.stderr.close()
            inspected = self.succeed(run("inspect", model))
            self.assertIn("all verified", inspected.stdout, f"after kill {kill}")
        steps = [int(path.name.split("-")[1]) for path in model.glob("model.ckpt-*")]
        self.succeed(self.train(model, "--resume", "--max-steps", max(steps) + 1))
        self.assertEqual(list(model.glob(".*")), [], "left-overs of killed writers")

    def test_a_run_that_is_killed_again_and_again_ends_as_any_other(self):
        """Including evaluations, early stopping and the restored weights."""
        options = ["--set", "train_config.eval_steps=7", "--set", "train_config.save_checkpoints_steps=5",
                   "--set", "train_config.keep_checkpoint_max=2", "--set", "train_config.use_tensorboard=false",
                   "--set", "train_config.dense_optimizer={adam_optimizer {lr: 0.03}}",
                   "--set", "train_config.early_stopping={metric: 'log_loss' patience: 2}"]
        model, reference = self.folder / "again", self.folder / "reference"
        moments = random.Random(2)
        for kill in range(8):
            process = subprocess.Popen([EMBLEM, "train", "--config", self.config, "--model-dir", model, "--resume",
                                        *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.wait_for_step(process, model, 5 * (kill + 1))
            time.sleep(0.1 * moments.random())
            process.kill()
            process.wait()
        self.succeed(self.train(model, "--resume", *options))
        finished = self.succeed(self.train(reference, *options))
        self.assertIn("stopped early", finished.stdout)
        for folder in (model, reference):
            (folder / "train_log.jsonl").unlink()        # contains rates
            (folder / "pipeline.config").unlink()        # names the model dir
        self.assertEqual(files_of(model), files_of(reference))

    def test_a_full_disk_is_reported_and_loses_nothing(self):
        model = self.folder / "full"
        model.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", model], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("needs the right to mount a small tmpfs")
        try:
            self.succeed(self.train(model, "--max-steps", "2", "--set", "train_config.use_tensorboard=false"))
            before = learned_files(model / "model.ckpt-2")
            message = self.fail_with(
                self.train(model, "--resume", "--set", "train_config.use_tensorboard=false",
                           "--set", "train_config.save_checkpoints_steps=1"),
                "No space left on device")
            self.assertIn("full", message)
            kept = sorted(path.name for path in model.glob("model.ckpt-*"))
            self.assertIn("model.ckpt-2", kept)
            self.assertEqual(before, learned_files(model / "model.ckpt-2"))
            self.assertIn("all verified", self.succeed(run("inspect", model)).stdout)
            self.assertEqual(list(model.glob(".*")), [])
        finally:
            subprocess.run(["umount", model], check=True)

    def test_damage_is_noticed(self):
        model = self.folder / "damaged"
        self.succeed(self.train(model, "--max-steps", "2"))
        checkpoint = model / "model.ckpt-2"
        vectors = checkpoint / "tables" / "C3_emb" / "emb_vector"
        whole = vectors.read_bytes()
        vectors.write_bytes(whole[:-4])
        self.fail_with(run("eval", "--checkpoint", model), "C3_emb/emb_vector", str(len(whole)))
        vectors.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
        self.fail_with(run("eval", "--checkpoint", model), "C3_emb/emb_vector", "checksum", "remove the checkpoint")
        vectors.unlink()
        self.fail_with(run("eval", "--checkpoint", model), "C3_emb/emb_vector")


if __name__ == "__main__":
    unittest.main(verbosity=2)
