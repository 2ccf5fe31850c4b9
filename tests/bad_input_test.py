"""Invalid input: a one-line error (what, where, expected, what to do), the right exit status, no loss of data."""

import os
import pathlib
import re
import subprocess
import unittest
from unittest import mock

from harness import EMBLEM, EmblemTest, run

COLUMNS = 40


def tsv_row(label="1", first_dense="5", category="1a"):
    return "\t".join([label, first_dense] + ["2"] * 12 + [category] * 26)


class BadData(EmblemTest):
    rows = 2000

    def train_on(self, name, content, *options):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self.train(self.folder / (name + "-model"), "--set", f"train_input_path={path}",
                          "--set", "data_config.shuffle=false", *options)

    def test_a_missing_file(self):
        process = self.train(self.folder / "m", "--set", "train_input_path=/nowhere/at/all.tsv")
        self.fail_with(process, "/nowhere/at/all.tsv")

    def test_a_missing_file_to_evaluate_on_is_told_before_training(self):
        process = self.train(self.folder / "m", "--set", "eval_input_path=/nowhere/at/all.tsv")
        self.fail_with(process, "/nowhere/at/all.tsv")
        self.assertNotIn("training:", process.stderr)
        self.assertFalse((self.folder / "m").exists())

    def test_bad_rows_do_not_cost_what_was_learned(self):
        good, bad = self.folder / "good.tsv", self.folder / "bad.tsv"
        good.write_text((tsv_row() + "\n") * 600)
        bad.write_text(tsv_row(first_dense="abc") + "\n")
        for name, train, test in (("train", f"{good},{bad}", good), ("test", good, f"{good},{bad}")):
            model = self.folder / f"bad-to-{name}"
            options = ["--set", f"train_input_path={train}", "--set", f"eval_input_path={test}", "--set", "data_config.shuffle=false"]
            self.fail_with(self.train(model, *options), "bad.tsv:1", "I1", "abc")
            resumed = self.succeed(self.train(model, "--resume", "--max-bad-rows", 1, *options))
            self.assertIn("resuming from", resumed.stderr)

    def test_an_empty_file(self):
        self.fail_with(self.train_on("empty.tsv", ""), "empty.tsv", "empty")

    def test_an_empty_folder(self):
        (self.folder / "nothing").mkdir()
        self.fail_with(self.train(self.folder / "m", "--set", f"train_input_path={self.folder / 'nothing'}"), "nothing")

    def test_a_field_that_is_no_number(self):
        content = "\n".join([tsv_row(), tsv_row(), tsv_row(first_dense="abc"), tsv_row()]) + "\n"
        self.fail_with(self.train_on("letters.tsv", content), "letters.tsv:3", "I1", "abc")

    def test_a_category_that_is_not_hexadecimal(self):
        content = "\n".join([tsv_row(), tsv_row(category="xyz")]) + "\n"
        self.fail_with(self.train_on("hex.tsv", content), "hex.tsv:2", "C1", "xyz")

    def test_a_row_with_too_few_columns(self):
        content = tsv_row() + "\n" + "1\t2\t3\n"
        self.fail_with(self.train_on("short.tsv", content), "short.tsv:2", "3", str(COLUMNS))

    def test_labels_outside_0_and_1(self):
        self.fail_with(self.train_on("label.tsv", tsv_row() + "\n" + tsv_row(label="2") + "\n"), "label.tsv:2", "2")

    def test_a_label_that_is_not_a_number(self):
        self.fail_with(self.train_on("nan.tsv", tsv_row() + "\n" + tsv_row(label="nan") + "\n"), "nan.tsv:2")

    def test_a_truncated_raw_file(self):
        self.fail_with(self.train_on("data.bin", bytes(160 * 3 + 17), "--set", "data_config.dataset_type=RawDataset"),
                       "data.bin", "160", "17")

    def test_an_id_outside_a_static_table(self):
        content = tsv_row(category="5") + "\n" + tsv_row(category="64") + "\n"
        process = self.train_on("ids.tsv", content, "--set", "feature_configs[1].id_feature={feature_name: 'C{1..26}' "
                                "embedding_dim: 8 num_buckets: 100}")
        self.fail_with(process, "ids.tsv:2", "C1", "100")

    def test_bad_rows_are_tolerated_and_counted_up_to_a_limit(self):
        rows = [tsv_row() for _ in range(50)]
        rows[10] = tsv_row(first_dense="x")
        rows[20] = "1\t2"
        content = "\n".join(rows) + "\n"
        process = self.succeed(self.train_on("few.tsv", content, "--set", "data_config.max_bad_rows=2"))
        self.assertIn("skipped     2 bad rows", process.stdout)
        self.fail_with(self.train_on("many.tsv", content, "--set", "data_config.max_bad_rows=1"), "many.tsv:11")

    def test_the_command_line_option_for_bad_rows(self):
        content = tsv_row() + "\n" + tsv_row(label="7") + "\n" + tsv_row() + "\n"
        self.assertIn("skipped     1 bad rows",
                      self.succeed(self.train_on("option.tsv", content, "--max-bad-rows", "1")).stdout)
        self.fail_with(self.train_on("none.tsv", content), "set data_config.max_bad_rows (--max-bad-rows N)")


class BadConfiguration(EmblemTest):
    rows = 2000

    def config_with(self, old, new):
        text = pathlib.Path(self.config).read_text()
        self.assertIn(old, text)
        return self.write_config("bad.config", text.replace(old, new, 1))

    def test_an_unknown_field_names_line_column_and_the_nearest(self):
        config = self.config_with("num_epochs: 1", "num_epoch: 1")
        self.fail_with(self.train(self.folder / "m", config=config), "bad.config:8:", "num_epoch", "num_epochs")

    def test_a_missing_configuration(self):
        self.fail_with(self.train(self.folder / "m", config="/nowhere.config"), "/nowhere.config")

    def test_an_unknown_override(self):
        self.fail_with(self.train(self.folder / "m", "--set", "train_config.num_epoch=3"), "num_epoch", "num_epochs")

    def test_an_override_with_line_breaks_is_shown_in_one_line(self):
        process = self.train(self.folder / "m", "--set", "data_config.batch_size=1\n2")
        self.fail_with(process, "batch_size is 1\\x0a2", "expected a whole number")
        self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)

    def test_an_override_takes_any_text(self):
        data = self.folder / 'a "b"\\c\nd.tsv'
        data.write_bytes(b"".join(path.read_bytes() for path in sorted((self.data / "train").iterdir())))
        escaped = str(data).replace("\\", "\\\\").replace('"', '\\"')
        for number, value in enumerate((str(data), f'"{escaped}"', '"' + escaped.replace("\n", "\\n") + '"')):
            self.succeed(self.train(self.folder / f"any{number}", "--max-steps", 1, "--set", f"train_input_path={value}"))

    def test_conflicting_settings(self):
        self.fail_with(self.train(self.folder / "m", "--set", "train_config.num_steps=3"), "num_steps", "num_epochs")
        self.fail_with(self.train(self.folder / "m", "--set", "feature_configs[1].id_feature.num_buckets=9"),
                       "num_buckets", "dynamicemb")
        self.fail_with(self.train(self.folder / "m", "--set", "train_config.grad_clipping.norm_type=1"), "norm_type", "2")

    def test_a_group_with_an_unknown_feature(self):
        config = self.config_with('feature_names: "I{1..13}"', 'feature_names: "I{1..14}"')
        self.fail_with(self.train(self.folder / "m", config=config), "I14", "I1")

    def test_dlrm_with_mismatched_dimensions(self):
        config = self.config_with("hidden_units: [32, 8]", "hidden_units: [32, 9]")
        self.fail_with(self.train(self.folder / "m", config=config), "9", "8", "dense_mlp")

    def test_a_metric_that_is_not_evaluated(self):
        for options in (("--stop-at", "ndcg=0.5"), ("--set", "train_config.early_stopping.metric=ndcg"),
                        ("--set", "train_config.dense_optimizer.reduce_on_plateau_learning_rate.metric=ndcg")):
            model = self.folder / "unwatched"
            process = self.train(model, *options, "--set", "train_config.eval_steps=1")
            self.fail_with(process, "ndcg", "evaluations report auc, log_loss")
            self.assertFalse(model.exists(), "refused before training")

    def test_a_direction_against_the_metric(self):
        self.fail_with(self.train(self.folder / "m", "--set",
                                  "train_config.early_stopping={metric: 'log_loss' higher_is_better: true}"),
                       "higher_is_better is true", "lower log_loss is better")
        self.fail_with(self.train(self.folder / "m", "--set", "train_config.early_stopping={patience: 0}"),
                       "patience is 0", "at least 1")

    def test_cuda_without_a_gpu_is_refused_in_words(self):
        hidden = mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": ""})
        hidden.start()
        self.addCleanup(hidden.stop)
        self.fail_with(self.train(self.folder / "m", "--device", "cuda"), "--device cpu")

    def test_a_driver_that_is_too_old(self):
        source = pathlib.Path(__file__).parent / "old_driver.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.folder / "libcuda.so.1", source], check=True)
        paths = f"{self.folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": paths}):
            process = self.train(self.folder / "m", "--device", "cuda")
        if "without CUDA" in process.stderr:
            self.skipTest("this program was compiled without CUDA")
        self.fail_with(process, "driver is too old", "CUDA 12.4", "update the driver", "--device cpu")


class BadCheckpoints(EmblemTest):
    rows = 2000

    def test_a_foreign_folder(self):
        self.fail_with(run("eval", "--checkpoint", self.data), str(self.data))

    def test_a_missing_folder(self):
        self.fail_with(run("eval", "--checkpoint", "/nowhere"), "/nowhere")

    def test_a_checkpoint_of_another_model(self):
        model = self.folder / "first"
        self.succeed(self.train(model, "--max-steps", "1"))
        config = self.write_config("other.config", (model / "pipeline.config").read_text())
        self.fail_with(run("eval", "--checkpoint", model, "--config", config, "--set",
                           "model_config.dlrm.final.hidden_units=[16]"), "another model", "top.0.weight")
        self.fail_with(run("eval", "--checkpoint", model, "--config", config, "--set",
                           "model_config.dlrm.arch_with_sparse=false"), "another model")

    def test_an_unreadable_manifest(self):
        model = self.folder / "unreadable"
        self.succeed(self.train(model, "--max-steps", "1"))
        (model / "model.ckpt-1" / "manifest.json").write_text("{]")
        self.fail_with(run("eval", "--checkpoint", model / "model.ckpt-1"), "manifest.json")

    def test_training_does_not_overwrite_a_model(self):
        model = self.folder / "kept"
        self.succeed(self.train(model, "--max-steps", "1"))
        self.fail_with(self.train(model, "--max-steps", "1"), "--resume", "model.ckpt-1")


class Usage(unittest.TestCase):
    commands = [[], *([name] for name in ("init", "synth", "convert", "train", "eval", "predict", "export", "serve", "inspect",
                                          "launch", "bench", "report")),
                *(["bench", name] for name in ("train", "loader", "infer", "tables", "serve", "suite", "compare"))]

    def test_every_command_explains_itself(self):
        for command in self.commands:
            process = run(*command, "--help")
            self.assertEqual(process.returncode, 0, command)
            self.assertIn("--help", process.stdout)

    def test_every_option_says_what_it_takes_and_does(self):
        for command in self.commands:
            lines = run(*command, "--help").stdout.partition("Options:\n")[2].splitlines()
            for line, following in zip(lines, [*lines[1:], ""]):
                option = re.match(r"  (--[\w-]+)( \S+)?( {2,}\S.*)?$", line)
                if not option:
                    continue
                self.assertTrue(option[3] or following.startswith(" " * 30), f"{command}: {line} has no text")
                self.assertNotIn(option[2], (" TEXT", " INT", " UINT", " FLOAT"), f"{command}: {line}")
                self.assertLessEqual(len(line), 100, line)

    def test_misspelt_commands_and_options_are_recognized(self):
        for words, expected in ((["trian"], 'no command "trian"; did you mean train?'),
                                (["bench", "tabels"], 'no command "bench tabels"; did you mean tables?'),
                                (["train", "--confg", "x"], "no option --confg; did you mean --config?"),
                                (["launch", "--rank", "2"], "no option --rank; did you mean --ranks?"),
                                (["launch", "--ranks", "2", "train", "--config", "x"],
                                 "no option --config; a command to start follows --, with its options"),
                                (["inspect", "--max-bad-rows", "1", "x"], "inspect has no option --max-bad-rows\n"),
                                (["train", "--config", "x", "--device", "gpu"], '"gpu" is not one of cpu|cuda; did you mean cuda?'),
                                (["train", "--config", "x", "--max-steps", "-3"], "-3 is out of range; expected at least 1"),
                                (["zzz"], "emblem --help lists all"), ([], "no command is given")):
            process = run(*words)
            self.assertEqual(process.returncode, 2, process.stderr)
            self.assertIn(expected, process.stderr)
            self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)

    def test_bad_usage_has_status_2(self):
        for command in ([], ["frobnicate"], ["train"], ["train", "--config"], ["synth", "--no-such-option"],
                        ["train", "--config", "x", "--device", "tpu"]):
            process = run(*command)
            self.assertEqual(process.returncode, 2, command)
            self.assertNotEqual(process.stderr, "", command)

    def test_an_option_without_a_value_does_not_take_the_next_one(self):
        process = run("serve", "--models", ".", "--token=", "--http-port=0")
        self.assertEqual((process.returncode, process.stderr),
                         (2, "emblem: --token= has no value after the equals sign\n"))

    def test_an_empty_token_is_no_token_by_mistake(self):
        process = run("serve", "--models", ".", env={**os.environ, "EMBLEM_TOKEN": ""})
        self.assertEqual(process.returncode, 1)
        self.assertIn("EMBLEM_TOKEN is set, but empty", process.stderr)

    def test_numbers_out_of_range_are_refused_in_one_line(self):
        for option, value, problem in (("--max-steps", "-3", "is out of range; expected at least 1"),
                                       ("--max-steps", "0", "is out of range; expected at least 1"),
                                       ("--max-steps", "1.5", "is not a whole number"),
                                       ("--max-steps", "many", "is not a whole number"),
                                       ("--max-steps", "9" * 22, f"is out of range; expected {-2**63} to {2**63 - 1}"),
                                       ("--max-bad-rows", "-1", "is out of range; expected at least 0")):
            process = run("train", "--config", "x", option, value)
            self.assertEqual(process.returncode, 2)
            self.assertEqual(process.stderr, f"emblem train: {option}: {value} {problem} (see emblem train --help)\n")

    def test_a_port_out_of_range(self):
        for port in ("99999", "-1"):
            process = run("serve", "--models", "x", "--http-port", port)
            self.assertEqual(process.returncode, 2)
            self.assertIn(f"--http-port: {port} is out of range; expected 0 to 65535", process.stderr)

    def test_a_pipeline_without_its_option(self):
        process = run("train", "c.config")
        self.assertEqual(process.returncode, 2)
        self.assertIn("unexpected argument c.config; did you mean --config c.config?", process.stderr)

    def test_lost_output_is_a_failure(self):
        for words in (["--help"], ["--version"], ["train", "--help"]):
            with open("/dev/full", "w") as full:
                process = subprocess.run([EMBLEM, *words], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(process.returncode, 1, words)
            self.assertRegex(process.stderr, "^emblem: cannot write standard output.*\n$")

    def test_unknown_formats_list_the_choices(self):
        process = run("synth", "--preset", "criteo", "--rows", "10", "--out", "/tmp/never", "--format", "xls")
        self.assertIn(process.returncode, (1, 2))
        self.assertIn("split", process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
