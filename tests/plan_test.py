#!/usr/bin/env python3
"""emblem probe, plan and bench plan, and trainings with their plans: what they do, not how fast."""

import json
import pathlib
import re
import shutil
import tempfile
import unittest

from harness import run
from ranks import Launched
from ranks_cases import differences, latest, run_on

PIPELINE = """
train_input_path: "{data}/train/*"
model_dir: "{folder}/model"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.01 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.001 }} }}
  num_epochs: 1
}}
data_config {{ batch_size: 64 dataset_type: CsvDataset label_fields: "label" num_workers: 1 with_header: true }}
feature_configs {{ raw_feature {{ feature_name: "x" }} }}
feature_configs {{ id_feature {{ feature_name: "a" num_buckets: 5000 embedding_dim: 8 {constraints} }} }}
feature_configs {{ id_feature {{ feature_name: "b" num_buckets: 300 embedding_dim: 8 }} }}
feature_configs {{ id_feature {{ feature_name: "c" num_buckets: 10 embedding_dim: 4 }} }}
model_config {{
  feature_groups {{ group_name: "deep" feature_names: ["x", "a", "b", "c"] group_type: DEEP }}
  dnn {{ deep {{ hidden_units: [16, 8] }} }}
  losses {{ binary_cross_entropy {{}} }}
  metrics {{ auc {{}} }}
}}
"""


class PlanTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.data = cls.folder / "data"
        cls.of_two, config = cls.folder / "two.json", cls.folder / "p.config"
        cls.write_pipeline(config)
        for command in (("synth", "--for", config, "--rows", 2000, "--test-rows", 10, "--format", "csv", "--out",
                         cls.data),
                        ("probe", "--config", config, "--ranks", 2, "--seconds", 0.001, "--out", cls.of_two)):
            done = run(*command)
            assert done.returncode == 0, done.stderr
        cls.printed_of_two = done.stdout

    def setUp(self):
        self.here = self.folder / self._testMethodName
        self.here.mkdir()
        self.config = self.here / "p.config"
        self.probe = self.here / "probe.json"
        self.write()

    @classmethod
    def write_pipeline(cls, path, constraints=""):
        path.write_text(PIPELINE.format(data=cls.data, folder=path.parent, constraints=constraints))

    def write(self, constraints=""):
        self.write_pipeline(self.config, constraints)

    def command(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, *arguments):
        done = run(*arguments)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr

    def launched(self, ranks, *command):
        job = Launched("--ranks", ranks, "--", *command)
        self.addCleanup(job.kill)
        self.assertEqual(job.wait(), 0, job.errors)
        return "\n".join(job.lines)

    def test_a_probe_becomes_a_plan_becomes_a_training(self):
        self.assertIn("2 ranks (cpu, threads", self.printed_of_two)
        self.assertRegex(self.printed_of_two, r"whole step +64 rows +[\d.]+ ms with columns for every second table")
        profile = json.loads(self.of_two.read_text())
        self.assertEqual(len(profile["hosts"]), 2)
        self.assertEqual({table["dim"] for table in profile["tables"]}, {8, 4, 2})  # 2: slices of 4 columns
        plan = self.here / "plan.txt"
        printed = self.command("plan", "--config", self.config, "--probe", self.of_two, "--explain", "--out", plan)
        self.assertEqual([(each["holding"], each["every_second"]) for each in profile["steps"]["held"]],
                         [("rows", False), ("rank", False), ("replicated", False), ("rank pooled", False),
                          ("columns", False), ("replicated", True), ("rank pooled", True), ("columns", True)])
        self.assertEqual([rows for rows, _ in profile["steps"]["held"][0]["seconds_by_rows"]], [32, 64, 128])
        self.assertRegex(printed, r"predicted [\d.]+ ms per step")
        self.assertRegex(printed, r"a_emb: .*, because ")
        lines = [line for line in plan.read_text().splitlines() if not line.startswith("#")]
        self.assertEqual(lines[0], "ranks 2")
        self.assertRegex(lines[1], r"^predicted_ms [\d.]+$")
        self.assertEqual({line.split()[0] for line in lines[2:]}, {"a_emb", "b_emb", "c_emb"})
        trained = self.launched(2, "train", "--config", self.config, "--set", f"train_config.plan_path={plan}")
        self.assertRegex(trained, r"plan +predicted [\d.e+]+ ms, measured [\d.e+]+ \([+-]\d+ %\)")

    def test_ranks_that_are_processes_are_probed_over_their_transport(self):
        self.write('embedding_constraints { sharding_types: "table_wise" }')
        self.launched(2, "probe", "--config", self.config, "--seconds", 0.001, "--out", self.probe)
        profile = json.loads(self.probe.read_text())
        self.assertEqual((profile["transport"], len(profile["hosts"])), ("tcp", 2))

    def test_ranks_of_several_hosts_are_probed_inside_them_and_share_rows(self):
        probed = run_on(4, "probe", "--config", self.config, "--seconds", 0.001, "--out", self.probe, hosts="aabb")
        self.assertEqual(probed.returncode, 0, probed.stderr)
        self.assertIn("inside", json.loads(self.probe.read_text())["exchange"])
        shared = "each row is sent once per step to each host"
        self.assertIn(shared, self.command("plan", "--config", self.config, "--probe", self.probe))
        self.assertNotIn(shared, self.command("plan", "--config", self.config, "--probe", self.probe,
                                              "--set", "train_config.dedup_per_host=OFF"))

    def test_a_given_plan_is_predicted(self):
        plan = self.here / "mine.txt"
        plan.write_text("ranks 2\na_emb rank 1\nb_emb replicated\nc_emb rows\n")
        printed = self.command("plan", "--config", self.config, "--probe", self.of_two, "--plan", plan)
        self.assertRegex(printed, r"a_emb .*on rank 1")
        self.assertRegex(printed, r"b_emb .*on every rank")
        plan.write_text("ranks 2\na_emb columns 2 1 0\nb_emb rank 0 pooled owner\nc_emb columns 2 0 1 pooled owner\n")
        printed = self.command("plan", "--config", self.config, "--probe", self.of_two, "--plan", plan)
        self.assertRegex(printed, r"a_emb .*columns over all ranks")
        self.assertRegex(printed, r"b_emb .*on rank 0, pooled there")
        self.assertRegex(printed, r"c_emb .*columns over all ranks, pooled there")
        plan.write_text("ranks 3\na_emb rows\n")
        self.assertIn("the plan (train_config.plan_path) is for 3 ranks, but there are 2",
                      self.refused("plan", "--config", self.config, "--probe", self.of_two, "--plan", plan))

    def test_keys_by_a_power_law_need_no_data(self):
        printed = self.command("plan", "--config", self.config, "--probe", self.of_two, "--sample", 0)
        self.assertIn("keys from a power law, alpha 1.05 (assumed)", printed)

    def test_what_does_not_fit_is_explained(self):
        line = self.refused("plan", "--config", self.config, "--probe", self.of_two, "--memory", "100k")
        self.assertRegex(line, r"emblem: no plan fits: rank \d would need .* too many; the largest table there is a_emb")
        self.assertEqual(len(line.splitlines()), 1)

    def test_bad_files_are_refused_in_one_line(self):
        self.probe.write_text("ranks 2\n")
        self.assertIn("not a file of emblem probe", self.refused("plan", "--config", self.config, "--probe", self.probe))
        self.assertIn("--probe FILE is missing", self.refused("plan", "--config", self.config))
        other = self.config.read_text().replace("embedding_dim: 4", "embedding_dim: 6")
        self.config.write_text(other)
        self.assertIn("the probe has no tables like c_emb (dim 6, fp32, adagrad, static); run emblem probe",
                      self.refused("plan", "--config", self.config, "--probe", self.of_two))

    def test_larger_clusters_are_simulated_with_their_sources(self):
        self.command("probe", "--config", self.config, "--seconds", 0.001, "--out", self.probe)
        printed = self.command("plan", "--config", self.config, "--probe", self.probe, "--hosts", "1,16,128",
                               "--devices", 8, "--link", "nvlink4,ndr")
        self.assertIn("kernels and layers: measured (cpu", printed)
        self.assertIn("between hosts: ndr, published:", printed)
        self.assertRegex(printed, r"(?m)^1024 +128 +rank ")
        apart, together = (float(re.search(rf"(?m)^128 +16 +{kind} +([\d.]+)", printed)[1]) for kind in ("rank", "host"))
        self.assertGreater(apart, together)
        self.assertNotRegex(printed, r"(?m)^8 +1 +host ")
        self.assertIn("predicted, not measured", printed)
        self.assertIn("not a known link", self.refused("plan", "--config", self.config, "--probe", self.probe, "--hosts",
                                                       2, "--link", "nvlink4,fast"))

    def test_published_results_are_predicted_with_their_error(self):
        printed = self.command("plan", "--backtest")
        self.assertRegex(printed, r"64 H100, 8 hosts +135168 +2\.82 +[\d.]+ +[+-]\d+ %")

    def test_constraints_are_obeyed_by_plans_and_trainings(self):
        self.write('embedding_constraints { sharding_types: "table_wise" }')
        plan = self.here / "plan.txt"
        self.command("plan", "--config", self.config, "--probe", self.of_two, "--out", plan)
        self.assertRegex(plan.read_text(), r"(?m)^a_emb rank \d$")
        # Without a plan: one rank has all rows of the table in its part of the checkpoint.
        self.launched(2, "train", "--config", self.config, "--set", "train_config.num_epochs=1")
        def runs(table):
            (folder,) = (self.here / "model").glob(f"model.ckpt-*/tables/{table}")
            return [path for path in folder.rglob("key") if path.stat().st_size > 0]

        self.assertEqual(len(runs("a_emb")), 1)
        self.assertEqual(len(runs("b_emb")), 2)

    def test_columns_are_constraints_that_change_no_bytes(self):
        def trained(name):
            model = self.here / name
            self.launched(2, "train", "--config", self.config, "--model-dir", model, "--set", "train_config.logical_shards=2")
            return latest(model)

        free, plan = trained("free"), self.here / "plan.txt"
        self.write('embedding_constraints { sharding_types: "column_wise" }')
        self.command("plan", "--config", self.config, "--probe", self.of_two, "--out", plan)
        self.assertRegex(plan.read_text(), r"(?m)^a_emb columns 2 0 1$")
        cut = trained("cut")
        self.assertEqual(differences(free, cut), [])
        # The rank of the first columns writes all rows.
        written = [[path for path in model.glob("tables/a_emb/**/key") if path.stat().st_size > 0] for model in (free, cut)]
        self.assertEqual([len(each) for each in written], [2, 1])

    def test_kinds_that_do_not_exist_are_one_line(self):
        self.write('embedding_constraints { sharding_types: "grid_shard" }')
        done = run("plan", "--config", self.config, "--probe", self.of_two)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("sharding_types grid_shard of feature a are not supported"), 1)
        self.write('embedding_constraints { sharding_types: "rowwise" }')
        self.assertIn('sharding_types has "rowwise"; expected row_wise, table_wise, column_wise, data_parallel',
                      self.refused("plan", "--config", self.config, "--probe", self.of_two))

    def test_bench_plan_compares_predictions_with_measurements(self):
        out = self.here / "bench.json"
        printed = self.command("bench", "plan", "--ranks", "1,2", "--transport", "threads,tcp", "--dims", 4,
                               "--batches", 16, "--kinds", "rows,table,columns,owner,random,planned", "--seconds",
                               0.001, "--probe-seconds", 0.0005, "--repeats", 0, "--json", out)
        self.assertRegex(printed, r"step time within 15 %: \d+ of 13")
        results = json.loads(out.read_text())
        self.assertEqual(len(results), 13)
        for result in results:
            self.assertGreater(result["metrics"]["predicted_seconds"]["value"], 0)
            self.assertLess(abs(result["metrics"]["predicted_table_bytes"]["value"] /
                                result["metrics"]["table_bytes"]["value"] - 1), 0.05)

    def test_a_job_of_bench_plan_that_fails_says_why(self):
        line = self.refused("bench", "plan", "--ranks", 2, "--transport", "tcp", "--dims", 1 << 40, "--kinds", "rows")
        self.assertRegex(line.splitlines()[-1], r"^emblem: 2 ranks over tcp: exit status 1: .*embedding_dim is 10995")

    def test_a_quick_bench_of_plans_chooses_its_own_batches(self):
        self.assertIn("--batches excludes --quick", self.refused("bench", "plan", "--quick", "--batches", 64))


if __name__ == "__main__":
    unittest.main()
