"""Interrupted, resumed, locked, warm-started and moved training runs: nothing is lost or overwritten."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from harness import EMBLEM, SOURCE, EmblemTest, files_of, learned_files, run

DEADLINE_S = 120


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Running:
    """A training run in the background; killed at the end of the block if still running."""

    def __init__(self, config, model, *options, **kwargs):
        self.process = subprocess.Popen(
            [EMBLEM, "train", "--config", config, "--model-dir", model, *map(str, options)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def wait_until(self, condition, what):
        deadline = time.time() + DEADLINE_S
        while not condition():
            if self.process.poll() is not None:
                raise AssertionError(f"ended before {what}: {self.process.communicate()[1]}")
            if time.time() > deadline:
                raise AssertionError(f"not in time: {what}")
            time.sleep(0.005)

    def wait_for_file(self, path):
        self.wait_until(lambda: path.exists() and (path.is_dir() or path.stat().st_size > 0), path)

    def interrupt(self, number=signal.SIGINT):
        self.process.send_signal(number)
        out, error = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, out, error


class TrainingTest(EmblemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = next((cls.data / "test").iterdir())
        # Evaluations on the same file 200 times, a million rows: longer than a signal takes.
        cls.long_evaluation = ("--set", "eval_input_path=" + ",".join([str(test)] * 200))


class Interruptions(TrainingTest):
    def test_every_signal_saves_and_has_its_own_status(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            with self.subTest(signal=number.name):
                model = self.folder / number.name
                with Running(self.config, model, "--set", "train_config.num_epochs=1000") as running:
                    running.wait_for_file(model / "train_log.jsonl")
                    code, out, error = running.interrupt(number)
                self.assertEqual(code, status, error)
                self.assertIn("emblem: interrupted: saving a checkpoint; interrupt again to stop at once", error)
                self.assertIn("continue with --resume", out)
                self.assertIn("all verified", self.succeed(run("inspect", model)).stdout)
                left = sorted(path.name for path in model.iterdir() if not path.name.startswith("events."))
                checkpoint = next(model.glob("model.ckpt-*")).name
                self.assertEqual(left, [checkpoint, "pipeline.config", "train_eval_result.jsonl", "train_log.jsonl"])

    def test_a_closed_pipe_does_not_lose_the_run(self):
        """Ctrl-C also ends `tee` in `emblem train | tee log`."""
        model = self.folder / "pipe"
        with Running(self.config, model, "--set", "train_config.num_epochs=1000") as running:
            running.wait_for_file(model / "train_log.jsonl")
            running.process.stdout.close()
            running.process.stderr.close()
            running.process.send_signal(signal.SIGINT)
            self.assertEqual(running.process.wait(DEADLINE_S), 130)
            running.process.stdout = running.process.stderr = None
        self.assertIn("all verified", self.succeed(run("inspect", model)).stdout)

    def test_an_interruption_of_the_last_evaluation_loses_nothing(self):
        model = self.folder / "last-evaluation"
        with Running(self.config, model, "--max-steps", 20, *self.long_evaluation) as running:
            running.wait_for_file(model / "model.ckpt-20")
            code, out, error = running.interrupt()
        self.assertEqual(code, 130, error)
        self.assertEqual(lines_of(model / "train_eval_result.jsonl"), [], "not a finished evaluation")
        self.assertEqual(json.loads((model / "model.ckpt-20/manifest.json").read_text())["metrics"], {})
        self.succeed(self.train(model, "--resume", "--max-steps", 20))
        self.assertEqual([line["global_step"] for line in lines_of(model / "train_eval_result.jsonl")], [20])
        metrics = json.loads((model / "model.ckpt-20/manifest.json").read_text())["metrics"]
        self.assertGreater(metrics["auc"], 0.5)

    def test_a_kill_in_the_last_evaluation_leaves_the_last_step(self):
        for name, options in (("unscheduled", ()), ("scheduled", ("--set", "train_config.eval_steps=20"))):
            with self.subTest(evaluation=name):
                model = self.folder / f"killed-{name}"
                with Running(self.config, model, "--max-steps", 20, *options, *self.long_evaluation) as running:
                    running.wait_for_file(model / "model.ckpt-20")
                    running.process.kill()
                self.assertEqual(lines_of(model / "train_eval_result.jsonl"), [])
                self.assertIn("all verified", self.succeed(run("inspect", model)).stdout)

    def test_an_interrupted_scheduled_evaluation_is_made_up_for(self):
        """Early stopping sees the same evaluations as in a run without the interruption."""
        options = ("--set", "train_config.eval_steps=20", "--set", "train_config.early_stopping.patience=5",
                   "--set", "train_config.save_checkpoints_steps=20", "--max-steps", 40)
        model = self.folder / "made-up"
        with Running(self.config, model, *options, *self.long_evaluation) as running:
            running.wait_for_file(model / "model.ckpt-20")
            code, _, error = running.interrupt()
        self.assertEqual(code, 130, error)
        self.assertEqual(lines_of(model / "train_eval_result.jsonl"), [])
        self.succeed(self.train(model, "--resume", *options))
        self.succeed(self.train(self.folder / "uninterrupted", *options))
        self.assertEqual([line["global_step"] for line in lines_of(model / "train_eval_result.jsonl")], [20, 40])
        self.assertEqual(files_of(model / "model.ckpt-40"), files_of(self.folder / "uninterrupted/model.ckpt-40"))

    def test_predictions_are_whole_or_absent(self):
        model, out = self.folder / "for-predictions", self.folder / "out" / "predictions.csv"
        out.parent.mkdir()
        self.succeed(self.train(model, "--max-steps", 2))
        test = next((self.data / "test").iterdir())
        process = subprocess.Popen([EMBLEM, "predict", "--checkpoint", model, "--out", out,
                                    "--input", ",".join([str(test)] * 200)], stderr=subprocess.PIPE, text=True)
        deadline = time.time() + DEADLINE_S
        while not list(out.parent.iterdir()) and time.time() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=DEADLINE_S)[1]
        self.assertEqual(process.returncode, 130, error)
        self.assertEqual(list(out.parent.iterdir()), [])


class OneTrainingAtATime(TrainingTest):
    def test_a_second_training_in_the_model_dir_is_refused(self):
        model = self.folder / "locked"
        self.succeed(self.train(model, "--max-steps", 2))
        endless = ("--resume", "--set", "train_config.num_epochs=1000")
        with Running(self.config, model, *endless) as running:
            running.wait_for_file(model / "train_log.jsonl")
            running.wait_for_file(model / ".lock")
            self.fail_with(self.train(model, "--resume"), str(model), f"process {running.process.pid}")
            # Readers are not affected.
            self.succeed(run("eval", "--checkpoint", model))
            self.succeed(run("inspect", model))
            self.succeed(run("report", model, "--out", self.folder / "report.html"))
            running.process.kill()
        self.succeed(self.train(model, "--resume", "--max-steps", 3))
        self.assertEqual(list(model.glob(".*")), [])


class Resuming(TrainingTest):
    def test_settings_that_change_the_result_are_refused_and_nothing_is_written(self):
        model = self.folder / "refused"
        self.succeed(self.train(model, "--max-steps", 2))
        before = files_of(model)
        for setting, parts in (
                ("train_config.seed=8", ("train_config.seed is 8, was 7",)),
                ("data_config.batch_size=128", ("data_config.batch_size is 128, was 256",)),
                ("train_config.sparse_optimizer={sgd_optimizer {lr: 0.1}}", ("is sgd_optimizer, was adagrad_optimizer",)),
                ("feature_configs[0].raw_feature.normalizer=method=log1p", ("feature_configs[0].raw_feature.normalizer",)),
                (f"train_input_path={self.data}/test", ("train_input_path", "meaningless"))):
            with self.subTest(setting=setting):
                self.fail_with(self.train(model, "--resume", "--set", setting), *parts, "--init-from", "model.ckpt-2")
                self.assertEqual(files_of(model), before)

    def test_a_run_within_an_epoch_continues_with_the_same_files_alone(self):
        model, data = self.folder / "files", self.folder / "files_data"
        data.mkdir()
        part = next((self.data / "train").iterdir())
        for name in ("b", "c"):
            shutil.copy(part, data / f"{name}{part.suffix}")
        self.succeed(self.train(model, "--max-steps", 3, "--set", f"train_input_path={data}"))
        before = files_of(model)
        shutil.copy(part, data / f"a{part.suffix}")
        self.fail_with(self.train(model, "--resume", "--set", f"train_input_path={data}"), "has 3 files", "read 2 files", "--init-from")
        self.assertEqual(files_of(model), before)
        (data / f"a{part.suffix}").unlink()
        os.truncate(data / f"c{part.suffix}", (data / f"c{part.suffix}").stat().st_size // 2)
        self.fail_with(self.train(model, "--resume", "--set", f"train_input_path={data}"), "continue with other data")
        content = bytearray(part.read_bytes())
        content[-2] ^= 1  # a digit of the last row, or of what follows it
        (data / f"c{part.suffix}").write_bytes(content)
        self.fail_with(self.train(model, "--resume", "--set", f"train_input_path={data}"), "of other names, sizes or content")
        self.assertEqual(files_of(model), before)
        shutil.copy(part, data / f"c{part.suffix}")
        self.succeed(self.train(model, "--resume", "--max-steps", 4, "--set", f"train_input_path={data}"))

    def test_a_run_within_an_epoch_continues_with_the_same_items_alone(self):
        config, data, model = SOURCE / "configs/taobao/dssm.config", self.folder / "taobao", self.folder / "sampled"
        self.succeed(run("synth", "--for", config, "--rows", 400, "--test-rows", 50, "--divide-tables", 1000, "--out", data))
        path = data / "items.txt"
        command = ["train", "--config", config, "--model-dir", model, "--train-input", data / "train", "--eval-input",
                   data / "test", "--divide-tables", 1000, "--set", "data_config.batch_size=16",
                   "--set", "data_config.negative_sampler.num_sample=16",
                   "--set", f"data_config.negative_sampler.input_path={path}"]
        self.succeed(run(*command, "--max-steps", 3))
        items, before = path.read_text(), files_of(model)
        first, *lines = items.splitlines()
        path.write_text("\n".join([first, *lines[::-1], ""]))
        self.fail_with(run(*command, "--resume"), "the sampler of data_config has 1 file", "content", "--init-from")
        self.assertEqual(files_of(model), before)
        path.write_text(items)
        self.succeed(run(*command, "--resume", "--max-steps", 4))

    def test_the_pipeline_file_is_not_replaced_by_the_one_of_the_model(self):
        model = self.folder / "own"
        model.mkdir()
        own = model / "pipeline.config"
        own.write_text("# mine\n" + self.config.read_text())
        made = run("train", "--config", own, "--model-dir", model, "--max-steps", 1)
        self.assertNotEqual(made.returncode, 0)
        self.assertIn("--model-dir", made.stderr)
        self.assertTrue(own.read_text().startswith("# mine"))

    def test_a_damaged_checkpoint_is_skipped_with_a_warning(self):
        model = self.folder / "skipped"
        self.succeed(self.train(model, "--max-steps", 4, "--set", "train_config.save_checkpoints_steps=2"))
        (model / "model.ckpt-4/manifest.json").write_text("{]")
        resumed = self.succeed(self.train(model, "--resume", "--max-steps", 3))
        warnings = [line for line in resumed.stderr.splitlines() if "warning: checkpoint" in line]
        self.assertEqual(len(warnings), 1, resumed.stderr)
        self.assertRegex(warnings[0], r"model\.ckpt-4 is skipped: .* damaged.*; using .*model\.ckpt-2$")

    def test_leftovers_of_a_killed_process_are_removed(self):
        model = self.folder / "leftovers"
        self.succeed(self.train(model, "--max-steps", 2))
        dead = subprocess.Popen(["true"])
        dead.wait()
        (model / f".pipeline.config.partial.{dead.pid}").write_text("")
        (model / f".tmp-model.ckpt-9-{dead.pid}").mkdir()
        self.succeed(self.train(model, "--resume", "--max-steps", 3))
        names = {path.name for path in model.iterdir() if not path.name.startswith("events.")}
        self.assertEqual(names, {"model.ckpt-2", "model.ckpt-3", "pipeline.config", "train_eval_result.jsonl",
                                 "train_log.jsonl"})


class WarmStarts(TrainingTest):
    def test_a_run_begins_with_the_weights_of_another(self):
        first, second = self.folder / "pretrained", self.folder / "tuned"
        self.succeed(self.train(first))
        trained = self.succeed(self.train(second, "--init-from", first, "--max-steps", 1, "--set", "train_config.seed=9",
                                          "--set", "train_config.sparse_optimizer={sgd_optimizer {lr: 0.001}}"))
        self.assertRegex(trained.stderr, r"initialized from .*pretrained/model\.ckpt-235: 26 tables with .* rows and "
                                         r"8 dense tensors\n")
        before, after = (lines_of(model / "train_eval_result.jsonl")[-1] for model in (first, second))
        self.assertEqual(after["global_step"], 1)
        self.assertAlmostEqual(after["auc"], before["auc"], delta=0.01)
        # It can be resumed like any other run.
        again = self.folder / "tuned-again"
        self.succeed(self.train(again, "--init-from", first / "model.ckpt-235", "--max-steps", 1,
                                "--set", "train_config.seed=9",
                                "--set", "train_config.sparse_optimizer={sgd_optimizer {lr: 0.001}}"))
        self.assertEqual(learned_files(again / "model.ckpt-1"), learned_files(second / "model.ckpt-1"))

    def test_what_does_not_match_is_named_and_can_be_allowed(self):
        first, second = self.folder / "source", self.folder / "partial"
        self.succeed(self.train(first, "--max-steps", 2))
        other = ("--init-from", first, "--max-steps", 1, "--set", "model_config.dlrm.final.hidden_units=[16]")
        self.fail_with(self.train(second, *other), "top.0.weight is 16 x 567 here and 32 x 567 there", "--init-partial")
        self.assertFalse(second.exists())
        trained = self.succeed(self.train(second, *other, "--init-partial"))
        self.assertRegex(trained.stderr, "26 tables with .* and 5 dense tensors; at its initial values: .*top.0.weight")
        renamed = ("--init-from", first, "--max-steps", 1,
                   "--set", "feature_configs[1].id_feature.embedding_name=user{1..26}")
        self.fail_with(self.train(self.folder / "renamed", *renamed), "table user1 is not in the checkpoint",
                       "the model has no table C1_emb", "and 21 more")

    def test_resuming_begins_with_it_where_there_is_no_checkpoint_yet(self):
        first, both = self.folder / "resume-first", self.folder / "resume-both"
        self.succeed(self.train(first, "--max-steps", 1))
        begun = self.succeed(self.train(both, "--init-from", first, "--resume", "--max-steps", 1))
        self.assertIn("holds no checkpoint yet", begun.stderr)
        self.assertRegex(begun.stderr, "26 tables with .* dense tensors")
        continued = self.succeed(self.train(both, "--init-from", first, "--resume", "--max-steps", 2))
        self.assertIn("resuming from", continued.stderr)
        self.assertNotRegex(continued.stderr, "26 tables with .* dense tensors")

    def test_weights_that_are_not_there(self):
        self.fail_with(self.train(self.folder / "nothing", "--init-from", self.folder / "nowhere"), "nowhere")
        self.assertFalse((self.folder / "nothing").exists())


class Places(TrainingTest):
    def test_a_checkpoint_is_evaluated_from_any_folder(self):
        config = self.write_config("relative.config", self.config.read_text().replace(f'"{self.data}', '"data'))
        trained = run("train", "--config", config, "--model-dir", "relative", "--max-steps", 2, cwd=self.folder)
        self.succeed(trained)
        self.succeed(run("eval", "--checkpoint", self.folder / "relative", cwd="/"))
        self.succeed(run("train", "--config", config, "--model-dir", self.folder / "relative", "--resume",
                         "--max-steps", 3, cwd=self.folder))

    def test_a_model_dir_that_cannot_be_one(self):
        file = self.folder / "file"
        file.write_text("")
        self.fail_with(self.train(file), f"cannot make the model dir {file}", "--model-dir")
        self.fail_with(self.train(file / "below"), "Not a directory")

    def test_a_model_dir_that_cannot_be_written(self):
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        model = self.folder / "read-only"
        model.mkdir(mode=0o500)
        self.fail_with(self.train(model), f"cannot write into the model dir {model}", "Permission denied")

    def test_a_read_only_file_system(self):
        model = self.folder / "mounted"
        model.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", model], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("needs the right to mount")
        try:
            self.fail_with(self.train(model), f"cannot write into the model dir {model}", "Read-only file system")
        finally:
            subprocess.run(["umount", model], check=True)


class Diverging(TrainingTest):
    def test_an_exploding_loss_names_the_feature(self):
        config = self.write_config("raw.config", self.config.read_text().replace('normalizer: "method=log,offset=3"', ""))
        process = self.train(self.folder / "raw", "--max-steps", 100, "--set",
                             "train_config.dense_optimizer={sgd_optimizer {lr: 10}}", config=config)
        said = [line for line in process.stderr.splitlines() if "largest mean magnitude" in line]
        self.assertGreaterEqual(len(said), 1, process.stderr)
        self.assertRegex(said[0], r"the loss is \S+ at step \d+.*are I\d+ \(\S+\).*give them a normalizer")

    def test_what_is_not_finite_is_not_saved(self):
        """The third update is beyond the largest float, though the loss is not."""
        config = self.write_config("large.config", self.config.read_text().replace("method=log,offset=3", "method=expression,expr=x*1000"))
        for part, said in (("sparse", "NaN or infinite values and is not saved"),
                           ("dense", "parameters of layers are NaN or infinite after step 3")):
            with self.subTest(part):
                model = self.folder / f"diverged-{part}"
                optimizer = "sgd_optimizer {lr: 1e-9} manual_step_learning_rate {schedule_sizes: [1] learning_rates: [1e38]}"
                self.fail_with(self.train(model, "--set", "train_config.save_checkpoints_steps=1", "--set",
                                          f"train_config.{part}_optimizer={{{optimizer}}}", config=config),
                               said, "lower the learning rate")
                self.assertEqual([path.name for path in sorted(model.glob("*model.ckpt-*"))], ["model.ckpt-1", "model.ckpt-2"])
                self.assertIn("all verified", self.succeed(run("inspect", model)).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
