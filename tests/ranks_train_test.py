"""Training on several ranks: for any number of them, transport and plan a model that is bit-identical to that of one."""

import json
import os
import signal
import subprocess
import unittest

from harness import CLEAN, EMBLEM, becomes_true, require_mpirun
from ranks_cases import SHUFFLE, Runs, differences, latest, losses, require_same, run_cases

PLAIN = {"model": "deepfm", "sparse": "adam", "dense": "adam", "pooling": "weighted mean", "tables": "admission"}
TWO_TASKS = {"model": "mmoe", "sparse": "adagrad", "dense": "sgd", "pooling": "mean", "tables": "shared"}
SEQUENCES = {"model": "multi_tower_din", "sparse": "rowwise_adagrad", "dense": "adam", "pooling": "sum", "tables": "dynamic"}
DROPOUT = PLAIN | {"model": "dcn_v2"}
NO_SHUFFLE = "shuffle: false"
EVALUATE = "eval_steps: 5"


def metrics(model):
    return json.loads((latest(model) / "manifest.json").read_text())["metrics"]


def positions(model):
    return json.loads((latest(model) / "manifest.json").read_text())["shard_positions"]


class EveryPair(unittest.TestCase):
    def test_any_number_of_ranks_gives_the_bits_of_one(self):
        run_cases(self, lambda case: [case["ranks"]], steps=6)


class Settings(unittest.TestCase):
    """Each of these on one, and on other numbers of ranks."""

    def same(self, *numbers, case=PLAIN, options=(), check=None, **settings):
        with Runs(case, **settings) as runs:
            one = runs.train(1, *options)
            for ranks in numbers:
                with self.subTest(ranks=ranks):
                    require_same(one, runs.train(ranks, *options))
            if check:
                check(one)

    def test_batch_norm(self):
        self.same(2, 3, rows=640)  # deepfm has it

    def test_dropout(self):
        self.same(3, 8, rows=640, case=DROPOUT)

    def test_gradient_accumulation(self):
        self.same(2, 4, rows=700, train="gradient_accumulation_steps: 3")

    def test_moving_average_of_weights(self):
        self.same(3, rows=640, case=PLAIN | {"dense": "adamw"})

    def test_clipping_by_value(self):
        self.same(3, rows=640, train='grad_clipping { clipping_type: "value" max_gradient: 0.001 }')

    def test_clipping_by_norm(self):
        self.same(4, rows=640, train='grad_clipping { clipping_type: "norm" max_gradient: 0.01 }')

    def test_clipping_by_the_norm_of_rows_and_weights(self):
        self.same(3, 4, rows=640, case=SEQUENCES,
                  train='grad_clipping { clipping_type: "norm" max_gradient: 0.01 enable_global_grad_clip: true }')

    def test_clipping_of_rows(self):
        with Runs(PLAIN, rows=640) as runs:
            runs.edit("adam_optimizer { lr: 0.01 weight_decay: 0.01 }",
                      "sgd_optimizer { lr: 0.5 gradient_clipping: true max_gradient: 0.001 }")
            require_same(runs.train(1), runs.train(3))

    def test_regularization(self):
        self.same(3, rows=640, case=TWO_TASKS, train="regularization { embedding_l2: 0.01 weight_l2: 0.01 }")
        self.same(4, rows=640, case=TWO_TASKS, train="regularization { embedding_l2: 0.01 embedding_l2_on_all_rows: true }")

    def test_learning_rates_that_follow_metrics(self):
        with Runs(PLAIN, rows=1280, train=EVALUATE) as runs:
            plateau = "reduce_on_plateau_learning_rate { metric: 'auc' patience: 1 factor: 0.5 }"
            runs.edit("adam_optimizer { lr: 0.005 }", "adam_optimizer { lr: 0.005 } " + plateau)
            require_same(runs.train(1), runs.train(3))

    def test_early_stopping_restores_the_best(self):
        stop = "eval_steps: 3 early_stopping { metric: 'auc' patience: 2 restore_best: true }"

        def check(one):
            stopping = json.loads((latest(one) / "manifest.json").read_text())["early_stopping"]
            self.assertLess(stopping["best_step"], int(latest(one).name.rpartition("-")[2]))
        self.same(2, 3, rows=640, epochs=30, case=TWO_TASKS | {"model": "dlrm", "sparse": "sgd"}, train=stop, check=check)

    def test_several_epochs_of_uneven_data(self):
        self.same(3, 4, rows=997, files=3, epochs=3)
        self.same(3, 8, rows=997, files=3, epochs=2, input=NO_SHUFFLE)

    def test_drop_remainder(self):
        self.same(3, rows=1001, files=5, epochs=2, input=SHUFFLE + " drop_remainder: true")

    def test_fewer_files_than_ranks(self):
        self.same(4, rows=500, files=2)

    def test_ranks_without_rows(self):
        self.same(3, 8, rows=5, epochs=2)
        self.same(8, rows=5, epochs=2, case=SEQUENCES)

    def test_one_row_in_all(self):
        for case in (PLAIN, TWO_TASKS, SEQUENCES):
            with self.subTest(case["model"]):
                self.same(4, rows=1, case=case)

    def test_evaluation_of_one_row(self):
        self.same(3, rows=200, test_rows=1, case=TWO_TASKS, check=lambda one: self.assertTrue(metrics(one)))

    def test_part_of_the_data_is_held_out(self):
        with Runs(PLAIN, rows=1000, input=SHUFFLE) as runs:
            runs.edit(f'eval_input_path: "{runs.data}/test"', "")
            runs.edit(SHUFFLE, SHUFFLE + " holdout_ratio: 0.2")
            one = runs.train(1)
            self.assertTrue(metrics(one))
            require_same(one, runs.train(3))

    def test_bad_rows_are_counted_and_skipped(self):
        with Runs(TWO_TASKS, rows=640, input="max_bad_rows: 10") as runs:
            part = next((runs.data / "train").iterdir())
            lines = part.read_text().split("\n")
            for i in (3, 300, 630):
                lines[i] = "not a number," + lines[i]
            part.write_text("\n".join(lines))
            one = runs.train(1)
            done = runs.try_to_train(3)
            require_same(one, runs.folder / "on-3")
            self.assertIn("skipped     3 bad rows", done.stdout)

    def test_positions_are_those_of_all_shards(self):
        with Runs(PLAIN, rows=1000) as runs:
            self.assertEqual(len(positions(runs.train(3, "--max-steps", 4))), 8)


class Transports(unittest.TestCase):
    def test_mpi_gives_the_same_bits(self):
        require_mpirun()
        for case in (PLAIN, SEQUENCES):
            with self.subTest(case["model"]), Runs(case, rows=640) as runs:
                one = runs.train(1)
                done = runs.try_to_train(3, transport="mpi")
                self.assertEqual(done.returncode, 0, done.stderr)
                require_same(one, runs.folder / "on-3")


class Fast(unittest.TestCase):
    """Without logical_shards, ranks agree up to rounding."""

    def test_two_ranks_agree_with_one_of_the_same_batch(self):
        case = {"model": "wide_and_deep", "sparse": "adagrad", "dense": "adam", "pooling": "sum", "tables": "hashed"}
        # Streams deal rows out in different orders: every step has all rows of an epoch.
        with Runs(case, shards=0, rows=512, test_rows=2000, epochs=40, input=NO_SHUFFLE, train="global_batch_size: 1024") as runs:
            one, two = runs.train(1), runs.train(2)
            first, second = losses(one), losses(two)
            self.assertEqual(first.keys(), second.keys())
            for step in range(1, 11):
                self.assertAlmostEqual(first[step], second[step], delta=1e-5 * abs(first[step]))
            self.assertAlmostEqual(metrics(one)["auc"], metrics(two)["auc"], delta=1e-3)
            self.assertNotEqual(differences(latest(one), latest(two)), ["shard_positions"], "rounding should differ")


    def test_rows_and_gradients_in_16_bits(self):
        case = {"model": "wide_and_deep", "sparse": "adagrad", "dense": "adam", "pooling": "sum", "tables": "hashed"}
        with Runs(case, shards=0, rows=512, test_rows=2000, epochs=40, input=NO_SHUFFLE, train="global_batch_size: 1024") as runs:
            exact = runs.train(2)
            for precision in ("BF16", "FP16"):
                rounded = runs.train(2, "--set", f"train_config.exchange_precision={precision}", name=precision)
                first, second = losses(exact), losses(rounded)
                self.assertNotEqual(first, second)
                for step in first:
                    self.assertAlmostEqual(first[step], second[step], delta=1e-2 * abs(first[step]))
                self.assertAlmostEqual(metrics(exact)["auc"], metrics(rounded)["auc"], delta=1e-2)


class Output(unittest.TestCase):
    def test_rank_0_reports_for_all(self):
        with Runs(PLAIN, rows=640) as runs:
            one, four = runs.try_to_train(1), runs.try_to_train(4)
        self.assertIn("emblem: 1 rank (", one.stderr)
        self.assertIn("emblem: 4 ranks (tcp), 8 shards of a batch", four.stderr)
        self.assertNotIn("rank 1: ", four.stderr)
        sizes = [next(line for line in done.stderr.splitlines() if "dense parameters" in line).partition(" rows (")[0]
                 for done in (one, four)]
        self.assertEqual(*sizes)

    def test_an_interrupt_ends_all_ranks_with_a_checkpoint(self):
        with Runs(PLAIN, rows=2000, epochs=100000) as runs:
            model = runs.folder / "model"
            command = [EMBLEM, "launch", "--ranks", "3", "--", "train", "--config", str(runs.config), "--model-dir", str(model)]
            process = subprocess.Popen(command, env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            log = model / "train_log.jsonl"
            self.assertTrue(becomes_true(lambda: log.exists() and log.stat().st_size > 0))
            os.kill(process.pid, signal.SIGINT)
            output, errors = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 130, errors)
            self.assertIn("continue with --resume", output)
            stopped = int(latest(model).name.rpartition("-")[2])
            runs.train(2, "--resume", "--max-steps", stopped + 3, name="model")
            require_same(runs.train(1, "--max-steps", stopped + 3), model)


if __name__ == "__main__":
    unittest.main()
