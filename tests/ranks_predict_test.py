"""Predictions and evaluations by several ranks: the same as those of one process, in the same order."""

import json
import re
import shutil
import signal
import unittest

from harness import CLEAN, EmblemTest, becomes_true, run
from ranks import PIPELINE, Launched, Rank, free_port, torchrun_variables

FILES = 3


class RanksPredictTest(EmblemTest):

    rows = 6000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.config = cls.write_config("ranks.config", PIPELINE.format(data=cls.data, model=cls.folder / "model"))
        cls.model = cls.folder / "model"
        trained = run("launch", "--ranks", "2", "--", "train", "--config", cls.config, env=CLEAN)
        assert trained.returncode == 0, trained.stderr
        lines = (cls.data / "test/part-00000.tsv").read_text().splitlines(keepends=True)
        cls.input = cls.folder / "input"
        cls.input.mkdir()
        for number in range(FILES):  # of different sizes, one of them with a row that cannot be read
            part = lines[number * 1000:number * 1000 + 400 * (number + 1)]
            if number == 1:
                part[77] = "1\tno number\n"
            (cls.input / f"part-{number}.tsv").write_text("".join(part))

    def succeed(self, ranks, *command):
        done = run(*(["launch", "--ranks", ranks, "--"] if ranks > 1 else []), *command, env=CLEAN)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def predict(self, ranks, out, data, *options):
        return self.succeed(ranks, "predict", "--checkpoint", self.model, "--input", data, "--out", out,
                            "--set", "data_config.max_bad_rows=1", *options)

    def same(self, name, *options, data=None):
        data = data or self.input
        one = self.folder / f"one-{name}"
        alone = self.predict(1, one, data, *options)
        for ranks in (2, 3, 5):
            with self.subTest(ranks=ranks):
                out = self.folder / f"{ranks}-{name}"
                done = self.predict(ranks, out, data, *options)
                self.assertEqual(out.read_bytes(), one.read_bytes())
                self.assertEqual(done.stdout.replace(str(out), "OUT"), alone.stdout.replace(str(one), "OUT"))
        return one

    def test_csv_has_the_bytes_of_one_process(self):
        out = self.same("out.csv")
        self.assertEqual(len(out.read_text().splitlines()), 1 + 400 + 800 + 1200)

    def test_kept_columns_and_chosen_outputs(self):
        out = self.same("kept.csv", "--keep", "C1,I2", "--outputs", "logits,probability")
        self.assertTrue(out.read_text().startswith("C1,I2,"))

    def test_fewer_rows_than_ranks(self):
        few = self.folder / "few.tsv"
        few.write_text("".join((self.input / "part-0.tsv").read_text().splitlines(keepends=True)[:2]))
        self.same("few.csv", data=few)

    def test_evaluations(self):
        found, shown = [], []
        for ranks in (1, 2, 3):
            path = self.folder / f"{ranks}.json"
            done = self.succeed(ranks, "eval", "--checkpoint", self.model, "--json", path)
            self.assertEqual(done.stdout.count("auc "), 1, done.stdout)
            rows = re.search(r"evaluating: 100% (\S+( k)?) of \1 rows", done.stderr)
            self.assertTrue(rows, done.stderr)
            shown.append(rows[1])
            found.append(json.loads(path.read_text()))
        self.assertEqual(len(set(shown)), 1, shown)
        for other in found[1:]:
            self.assertAlmostEqual(other.pop("log_loss"), found[0]["log_loss"], places=12)
            self.assertEqual(other, {name: value for name, value in found[0].items() if name != "log_loss"})

    def test_too_many_bad_rows_of_all_ranks(self):
        done = run("launch", "--ranks", 2, "--", "predict", "--checkpoint", self.model, "--input", self.input,
                   "--out", self.folder / "bad.csv", env=CLEAN)
        self.assertEqual(done.returncode, 1)
        self.assertIn("part-1.tsv", done.stderr)
        self.assertFalse((self.folder / "bad.csv").exists())

    def test_a_missing_checkpoint_is_one_line_on_all_ranks(self):
        port = free_port()
        ranks = [Rank(torchrun_variables(rank, 2, port), "predict", "--checkpoint", self.folder / "nothing", "--input",
                      self.input, "--out", self.folder / "none.csv") for rank in range(2)]
        self.assertEqual([rank.wait() for rank in ranks], [1, 1])
        self.assertIn("nothing", ranks[0].errors[-1])
        self.assertRegex(ranks[1].errors[-1], r"rank 0 \(host .+\): .*nothing")

    def refused(self, command, options_of_ranks, folders=(None, None)):
        """Both ranks, each in its folder, end with a line; that of rank 0 is returned. No file appears."""
        port, out = free_port(), self.folder / "refused.csv"
        output = ["--out", out] if command == "predict" else []
        ranks = [Rank(torchrun_variables(rank, 2, port), command, *output, *options, cwd=folders[rank])
                 for rank, options in enumerate(options_of_ranks)]
        self.assertEqual([rank.wait() for rank in ranks], [1, 1], [rank.errors for rank in ranks])
        self.assertFalse(out.exists())
        return ranks[0].errors[-1]

    def folders(self, name):
        """One per rank."""
        made = [self.folder / f"{name}-{rank}" for rank in range(2)]
        for folder in made:
            folder.mkdir()
        return made

    def test_ranks_with_other_columns_or_outputs_are_refused(self):
        base = ["--checkpoint", self.model, "--input", self.input]
        for option, names in (("--keep", ("C1", "C2")), ("--outputs", ("logits", "probability"))):
            line = self.refused("predict", [[*base, option, name] for name in names])
            self.assertIn("start all ranks with the same pipeline and options", line)

    def test_ranks_with_other_data_are_refused(self):
        folders = self.folders("data")
        lines = (self.input / "part-0.tsv").read_text().splitlines(keepends=True)
        for rank, folder in enumerate(folders):
            (folder / "test.tsv").write_text("".join(lines[rank:]))
        for command in ("predict", "eval"):
            line = self.refused(command, [["--checkpoint", self.model, "--input", "test.tsv"]] * 2, folders)
            self.assertRegex(line, r"rank 1 .* has 1 file with \d+ bytes in test.tsv, rank 0 .*; give all ranks the same data")

    def test_ranks_with_other_checkpoints_are_refused(self):
        newest = max(self.model.glob("model.ckpt-*"), key=lambda path: int(path.name.rpartition("-")[2]))
        folders = self.folders("models")
        shutil.copytree(newest, folders[0] / newest.name)
        self.succeed(2, "train", "--config", self.config, "--model-dir", folders[1], "--set", "train_config.seed=8")
        line = self.refused("eval", [["--checkpoint", newest.name, "--input", self.input]] * 2, folders)
        self.assertRegex(line, rf"rank 1 .* has another .*{newest.name} than rank 0 .*; give all ranks the same")

    def test_an_interruption_leaves_no_file(self):
        many = self.folder / "many.tsv"
        many.write_text((self.input / "part-0.tsv").read_text() * 2000)
        out = self.folder / "interrupted.csv"
        job = Launched("--ranks", 2, "--", "predict", "--checkpoint", self.model, "--input", many, "--out", out)
        self.addCleanup(job.kill)
        self.assertTrue(becomes_true(lambda: list(self.folder.glob(".interrupted.csv*")) or out.exists()))
        job.process.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(), 130, job.errors)
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
