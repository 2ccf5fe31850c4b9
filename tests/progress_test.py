"""Every long-running command shows progress: rate, percentage and time left."""

import os
import pty
import subprocess
import threading
import unittest

from harness import EMBLEM, EmblemTest, run

TRAINING = r"training: \[#*\.*\] \d+%, \S+( k)? rows/s, \S+( m?s)? left, loss \d\.\d{6}"
PLAIN_END = r"(?m)^{}: 100% .+ of .+ {}, .+ {}/s, "


def run_on_terminal(*arguments):
    """The output of the program on a terminal of 80 columns."""
    outer, inner = pty.openpty()
    drawn = []

    def read():
        try:
            while piece := os.read(outer, 4096):
                drawn.append(piece)
        except OSError:  # how a pseudo-terminal ends
            pass

    reader = threading.Thread(target=read)
    reader.start()
    process = subprocess.run([EMBLEM, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=inner, timeout=300)
    os.close(inner)
    reader.join()
    os.close(outer)
    return process.returncode, b"".join(drawn).decode()


class ProgressTest(EmblemTest):
    def test_training_by_epochs(self):
        status, drawn = run_on_terminal("train", "--config", self.config, "--model-dir", self.folder / "epochs",
                                        "--set", "train_config.num_epochs=2")
        self.assertEqual(status, 0, drawn)
        self.assertRegex(drawn, TRAINING)
        self.assertIn("100% 120.00 k of 120.00 k rows", drawn)

    def test_training_by_steps(self):
        status, drawn = run_on_terminal("train", "--config", self.config, "--model-dir", self.folder / "steps",
                                        "--max-steps", "200")
        self.assertEqual(status, 0, drawn)
        self.assertRegex(drawn, TRAINING)
        self.assertIn("100% 51.20 k of 51.20 k rows", drawn)

    def test_a_resumed_run_counts_what_it_has_left(self):
        model = self.folder / "resumed"
        self.succeed(self.train(model, "--max-steps", "100"))
        resumed = self.succeed(self.train(model, "--resume"))
        self.assertIn("training: 100% 34.40 k of 34.40 k rows", resumed.stderr)

    def test_plain_lines_elsewhere(self):
        model = self.folder / "plain"
        trained = self.succeed(self.train(model, "--max-steps", "20"))
        self.assertRegex(trained.stderr, PLAIN_END.format("training", "rows", "rows"))
        evaluated = self.succeed(run("eval", "--checkpoint", model))
        self.assertRegex(evaluated.stderr, PLAIN_END.format("evaluating", "rows", "rows"))
        limited = self.succeed(run("eval", "--checkpoint", model, "--set", "eval_config.num_steps=3"))
        self.assertIn("evaluating: 100% 768 of 768 rows", limited.stderr)
        predicted = self.succeed(run("predict", "--checkpoint", model, "--input", self.data / "test",
                                     "--out", self.folder / "predictions.csv"))
        self.assertRegex(predicted.stderr, PLAIN_END.format("predicting", "rows", "rows"))
        converted = self.succeed(run("convert", "--from", self.data / "test", "--to", self.folder / "csv",
                                     "--format", "csv"))
        self.assertRegex(converted.stderr, PLAIN_END.format("convert", "bytes", "bytes"))
        made = self.succeed(run("synth", "--rows", 1000, "--out", self.folder / "small"))
        self.assertRegex(made.stderr, PLAIN_END.format("synth", "rows", "rows"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
