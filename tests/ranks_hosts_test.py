"""Ranks of several hosts that share the rows they need from others: each comes to a host once, with the same results."""

import json
import unittest

from harness import require_mpirun
from ranks_cases import AXES, Runs, differences, latest, losses, require_same, run_cases, run_on

PLAIN = {"model": "deepfm", "sparse": "adam", "dense": "adam", "pooling": "weighted mean", "tables": "admission"}
HASHED = {"model": "wide_and_deep", "sparse": "adagrad", "dense": "adam", "pooling": "sum", "tables": "hashed"}
ON = ["--set", "train_config.dedup_per_host=ON"]
OFF = ["--set", "train_config.dedup_per_host=OFF"]
ROWS = "each row is sent once per step to each of 2 hosts (dedup_per_host)"
SUMS = ROWS + "; so is the sum of its gradients"
NO_SHUFFLE = "shuffle: false"


def metrics(model):
    return json.loads((latest(model) / "manifest.json").read_text())["metrics"]


class WithShards(unittest.TestCase):
    """With logical_shards rows are shared, and gradients are not summed by host."""

    def test_hosts_give_the_bits_of_one_rank(self):
        axes = AXES | {"model": ["dlrm", "multi_tower_din", "mmoe"], "sparse": ["adagrad", "rowwise_adagrad", "adam"],
                       "dense": ["adam"], "pooling": ["sum", "weighted mean"], "ranks": [0],
                       "hosts": ["aabb", "aabbcc", "aab", "abba"]}
        run_cases(self, lambda case: [len(case["hosts"])], steps=4, of_ranks=ON, axes=axes)

    def test_checkpoints_move_between_hosts(self):
        with Runs(PLAIN, rows=640, epochs=2) as runs:
            whole = runs.train(1)
            for first, then in (("aabb", "aab"), ("", "aabbcc"), ("abab", "")):
                with self.subTest(first=first, then=then):
                    name = f"{first}-{then}"
                    runs.train(len(first) or 2, *ON, "--max-steps", 12, hosts=first, name=name)
                    runs.train(len(then) or 1, *ON, "--resume", hosts=then, name=name)
                    require_same(whole, runs.folder / name)

    def test_a_joint_norm_of_gradients(self):
        clipping = 'grad_clipping { clipping_type: "norm" max_gradient: 0.01 enable_global_grad_clip: true }'
        with Runs(PLAIN, rows=640, train=clipping) as runs:
            require_same(runs.train(1), runs.train(4, hosts="aabb"))

    def test_mpi(self):
        require_mpirun()
        with Runs(PLAIN, rows=640) as runs:
            done = runs.try_to_train(4, transport="mpi", hosts="abba")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(ROWS, done.stderr)
            require_same(runs.train(1), runs.folder / "on-4")


class Fast(unittest.TestCase):
    """Without logical_shards gradients are summed by host: results agree up to rounding."""

    def test_hosts_agree_with_ranks_that_ask_one_by_one(self):
        with Runs(HASHED, shards=0, rows=512, test_rows=2000, epochs=40, input=NO_SHUFFLE,
                  train="global_batch_size: 1024") as runs:
            apart = runs.train(4, *OFF, hosts="aabb", name="apart")
            for precision in ("FP32", "BF16"):
                options = ["--set", f"train_config.exchange_precision={precision}"]
                exact = precision == "FP32"
                together = runs.train(4, *options, hosts="aabb", name=precision)
                first, second = losses(apart), losses(together)
                self.assertEqual(first.keys(), second.keys())
                part = 1e-5 if exact else 1e-2
                for step in range(1, 11):
                    self.assertAlmostEqual(first[step], second[step], delta=part * abs(first[step]))
                self.assertAlmostEqual(metrics(apart)["auc"], metrics(together)["auc"], delta=1e-3 if exact else 1e-2)
                self.assertNotEqual(differences(latest(apart), latest(together)), [], "rounding should differ")

    def test_they_repeat_their_bits(self):
        with Runs(PLAIN, shards=0, rows=640) as runs:
            first, second = (runs.train(6, *ON, hosts="aabbcc", name=name) for name in ("first", "second"))
            require_same(first, second)


class Choice(unittest.TestCase):
    def test_auto_is_for_two_hosts_with_two_ranks_each(self):
        with Runs(HASHED, shards=0, rows=64) as runs:
            for number, (hosts, options, expected) in enumerate((
                    ("aabb", [], SUMS), ("aabb", OFF, None), ("aab", [], None), ("aab", ON, SUMS), ("ab", ON, None),
                    ("", ON, None), ("aabb", ["--set", "train_config.logical_shards=4"], ROWS),
                    ("aabb", ["--set", "train_config.deterministic=true"], ROWS))):
                with self.subTest(hosts, options=options):
                    done = runs.try_to_train(len(hosts) or 2, *options, hosts=hosts, name=f"run-{number}")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    lines = [line for line in done.stderr.splitlines() if "once per step" in line]
                    self.assertEqual(lines, [f"emblem: {expected}"] if expected else [])

    def test_evaluations_and_predictions_share_rows(self):
        with Runs(PLAIN, rows=640, test_rows=300) as runs:
            model = runs.train(1)
            made = []
            for hosts in ("", "aabb"):
                out = runs.folder / f"scores{hosts}.csv"
                commands = (["predict", "--checkpoint", model, "--input", runs.data / "test", "--out", out],
                            ["eval", "--checkpoint", model])
                done = [run_on(len(hosts) or 1, *command, hosts=hosts) for command in commands]
                for each in done:
                    self.assertEqual(each.returncode, 0, each.stderr)
                    self.assertEqual(ROWS in each.stderr, bool(hosts))
                made.append((out.read_bytes(), done[1].stdout.splitlines()[0]))
            self.assertEqual(*made)


if __name__ == "__main__":
    unittest.main()
