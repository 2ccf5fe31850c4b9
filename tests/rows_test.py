"""The same rows and labels from every format: filters, predictions of all rows, line ends in CSV fields, labels, infinity."""

import csv
import datetime
import decimal
import pathlib
import random
import shutil
import tempfile
import unittest

from harness import learned_files, run, use_arrow, use_test_clients

use_arrow()
use_test_clients("pyarrow")

import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet

PIPELINE = """
train_input_path: "{data}"
{evaluation}
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.2 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.01 }} }}
  num_epochs: 2
  save_checkpoints_steps: 0
  seed: 3
}}
data_config {{ dataset_type: {type} with_header: true fg_mode: FG_DAG batch_size: 64 num_workers: 2 shuffle: false {settings} }}
feature_configs {{ id_feature {{ feature_name: "city" hash_bucket_size: 50 embedding_dim: 4 }} }}
feature_configs {{ raw_feature {{ feature_name: "age" normalizer: "method=log1p" default_value: "0" }} }}
{model}
"""

ONE_LABEL = """
model_config {
  feature_groups { group_name: "all" feature_names: "city" feature_names: "age" }
  dnn { deep { hidden_units: [16] } }
  metrics { auc { thresholds: 0 } }
}
"""

TWO_LABELS = """
model_config {
  feature_groups { group_name: "all" feature_names: "city" feature_names: "age" }
  mmoe {
    expert_mlp { hidden_units: [16] } num_expert: 2
    task_towers { tower_name: "clk" label_name: "clk" mlp { hidden_units: [8] }
                  losses { binary_cross_entropy {} } metrics { auc { thresholds: 0 } } }
    task_towers { tower_name: "pay" label_name: "pay" mlp { hidden_units: [8] }
                  losses { l2_loss {} } metrics { mean_absolute_error {} } }
  }
}
"""

WRITERS = {
    "csv": ("CsvDataset", pyarrow.csv.write_csv),
    "parquet": ("ParquetDataset", pyarrow.parquet.write_table),
    "orc": ("OrcDataset", pyarrow.orc.write_table),
    "arrow": ("ArrowDataset", lambda table, path: pyarrow.feather.write_feather(table, path, compression="uncompressed")),
}


class Rows(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    @staticmethod
    def table(rows=1200, seed=1):
        """clk follows the city; day counts from 1 to 9."""
        chance = random.Random(seed)
        city = [chance.choice(["rome", "oslo", "bonn", "lima"]) for _ in range(rows)]
        return pyarrow.table({
            "clk": [int((name < "n") != (chance.random() < 0.1)) for name in city],
            "day": [chance.randint(1, 9) for _ in range(rows)],
            "city": city,
            "age": [float(chance.randint(0, 80)) for _ in range(rows)],
        })

    def write(self, table, kind, name="data"):
        path = self.folder / f"{name}.{kind}"
        WRITERS[kind][1](table, str(path))
        return path

    def train(self, data, model="model", settings="", evaluation="", labels=("clk",), config=ONE_LABEL, options=()):
        pipeline = self.folder / f"{model}.config"
        pipeline.write_text(PIPELINE.format(
            data=data, evaluation=evaluation, type=WRITERS[data.suffix[1:]][0], model=config,
            settings=" ".join(f'label_fields: "{label}"' for label in labels) + " " + settings))
        return run("train", "--config", pipeline, "--model-dir", self.folder / model, *options)

    def succeed(self, process):
        self.assertEqual(process.returncode, 0, process.stderr)
        return process

    def fail_with(self, process, *texts):
        self.assertNotEqual(process.returncode, 0)
        for text in texts:
            self.assertIn(text, process.stderr)

    def learned(self, model):
        return learned_files(sorted((self.folder / model).glob("model.ckpt-*"))[-1])

    def predict(self, data, *options, model="model"):
        out = self.folder / "predictions.csv"
        process = self.succeed(run("predict", "--checkpoint", self.folder / model, "--input", data, "--out", out, *options))
        with open(out, newline="") as file:
            return list(csv.reader(file))[1:], process

    def test_filters_choose_the_same_rows_in_every_format(self):
        table = self.table()
        kept = table.filter((pyarrow.compute.field("day") >= 4) & pyarrow.compute.field("city").isin(["rome", "oslo"]))
        for kind in WRITERS:
            self.succeed(self.train(self.write(table, kind), f"filtered-{kind}",
                                    'filters: "day >= 4" filters: "city in [rome, oslo]"'))
            self.succeed(self.train(self.write(kept, kind, "kept"), f"kept-{kind}"))
            self.assertEqual(self.learned(f"filtered-{kind}"), self.learned(f"kept-{kind}"), kind)

    def kept(self, data, condition):
        rows, _ = self.predict(data, "--filter", condition, "--keep", "row")
        return [int(row) for row, _ in rows]

    def test_a_filter_keeps_the_same_rows_whatever_the_type_of_the_column(self):
        table = self.table()
        table = table.append_column("row", pyarrow.array(range(len(table))))
        days = [(20261099 + i % 4) if i % 7 else None for i in range(len(table))]  # 20261101 is no 32-bit float
        self.succeed(self.train(self.write(table, "csv")))
        column = lambda type: table.append_column("at", pyarrow.array(days, type))
        types = {"integer": pyarrow.int64(), "double": pyarrow.float64(), "decimal": pyarrow.decimal128(12, 2)}
        files = [self.write(column(type), kind, name) for kind in WRITERS for name, type in types.items()]
        files.append(self.write(table.append_column("at", pyarrow.array([day and f"{day}.0" for day in days])),
                                "csv", "point"))
        for condition, keeps in (("at >= 20261101", lambda day: day >= 20261101),
                                 ("at = 20261101", lambda day: day == 20261101),
                                 ("at <= 20261100.5", lambda day: day <= 20261100),
                                 ("at not in [20261101, 7]", lambda day: day != 20261101)):
            expected = [i for i, day in enumerate(days) if day and keeps(day)]
            for path in files:
                self.assertEqual(self.kept(path, condition), expected, (condition, path))

    def test_filters_on_bools_and_dates_take_their_words_in_every_format(self):
        table = self.table()
        table = table.append_column("row", pyarrow.array(range(len(table))))
        start = datetime.datetime(2026, 11, 14)
        times = [start + datetime.timedelta(hours=7 * i % 100) for i in range(len(table))]
        truths = [i % 3 > 0 if i % 5 else None for i in range(len(table))]
        self.succeed(self.train(self.write(table, "csv")))
        typed = table.append_column("ok", pyarrow.array(truths))
        typed = typed.append_column("at", pyarrow.array(times, pyarrow.timestamp("us")))
        typed = typed.set_column(1, "day", pyarrow.array([time.date() for time in times]))
        files = [self.write(typed, kind, "typed") for kind in WRITERS]
        words = typed.set_column(typed.column_names.index("ok"), "ok",
                                 pyarrow.array([None if truth is None else str(truth) for truth in truths]))
        words = words.set_column(words.column_names.index("at"), "at",
                                 pyarrow.array([time.isoformat() for time in times]))
        files.append(self.write(words, "csv", "words"))
        day = datetime.date(2026, 11, 16)
        for condition, rows in (
                ("ok = true", [i for i, truth in enumerate(truths) if truth]),
                ("ok != True", [i for i, truth in enumerate(truths) if truth is False]),
                ("ok = 1", [i for i, truth in enumerate(truths) if truth]),
                ("day >= 2026-11-16", [i for i, time in enumerate(times) if time.date() >= day]),
                ("day in [2026-11-15, 2026-11-16]", [i for i, time in enumerate(times) if 15 <= time.day <= 16]),
                ("at < 2026-11-16", [i for i, time in enumerate(times) if time.date() < day]),
                ("at > 2026-11-16T07:00:00", [i for i, time in enumerate(times)
                                              if time > datetime.datetime(2026, 11, 16, 7)])):
            for path in files:
                self.assertEqual(self.kept(path, condition), rows, (condition, path))
        for path in files[1:4]:
            self.fail_with(run("predict", "--checkpoint", self.folder / "model", "--input", path,
                               "--out", self.folder / "x.csv", "--filter", "day > 11/16/2026"),
                           "expected a date such as 2026-11-16", '"11/16/2026"')

    def test_numbers_of_na_strings_are_missing_in_every_format(self):
        table = self.table()
        age = [-999.0 if i % 9 == 0 else value for i, value in enumerate(table["age"].to_pylist())]
        shop = [-1 if i % 7 == 0 else i % 5 for i in range(len(table))]
        table = table.set_column(3, "age", pyarrow.array(age)).append_column("shop", pyarrow.array(shop))
        missing = table.set_column(3, "age", pyarrow.array([None if value == -999 else value for value in age]))
        missing = missing.set_column(4, "shop", pyarrow.array([None if value == -1 else value for value in shop]))
        config = ONE_LABEL.replace('feature_names: "city"', 'feature_names: "city" feature_names: "shop"')
        config = """feature_configs { id_feature { feature_name: "shop" hash_bucket_size: 50 embedding_dim: 4 } }
            """ + config
        na_strings = 'na_strings: "-999" na_strings: "-1" '
        for kind in ("csv", "parquet"):
            self.succeed(self.train(self.write(table, kind), kind, na_strings, config=config))
            expected, _ = self.predict(self.write(missing, kind, "missing"), model=kind)
            codes = [self.write(table, other, "codes") for other in WRITERS]
            codes.append(self.write(table.set_column(4, "shop", pyarrow.array([float(value) for value in shop])), "parquet",
                                    "doubles"))
            for path in codes:
                self.assertEqual(self.predict(path, model=kind)[0], expected, (kind, path))
            for path in codes[:2]:
                self.assertEqual(len(self.predict(path, "--filter", "age < 9", model=kind)[0]),
                                 sum(0 <= value < 9 for value in age), path)

    def test_filters_that_mean_nothing_are_refused(self):
        for kind in ("csv", "parquet"):
            data = self.write(self.table(), kind)
            self.fail_with(self.train(data, settings='filters: "dya >= 4"'), "the filter \"dya >= 4\"",
                           'has no column "dya"; did you mean "day"?')
            self.fail_with(self.train(data, settings='filters: "nonsense"'), 'the filter "nonsense" is not a condition',
                           "expected COLUMN OP VALUE")

    def test_filters_of_a_training_choose_rows_of_its_evaluations_and_of_nothing_else(self):
        table, test = self.table(), self.table(2381, 2)
        days = test["day"].to_pylist()
        expected = sum(day >= 7 for day in days)
        test_csv, test_parquet = self.write(test, "csv", "test"), self.write(test, "parquet", "test")
        process = self.succeed(self.train(self.write(table, "csv"), settings='filters: "day >= 7"',
                                          evaluation=f'eval_input_path: "{test_parquet}"'))
        self.assertIn("is read as ParquetDataset", process.stderr)
        evaluated = self.succeed(run("eval", "--checkpoint", self.folder / "model"))
        self.assertIn(f"{expected} rows in", evaluated.stdout)
        for path in (test_csv, test_parquet):
            rows, process = self.predict(path)
            self.assertEqual(len(rows), 2381)
            self.assertIn("all rows of", process.stderr)
            rows, _ = self.predict(path, "--filter", "day >= 7", "--keep", "day")
            self.assertEqual([int(day) for day, _ in rows], [day for day in days if day >= 7])
            evaluated = self.succeed(run("eval", "--checkpoint", self.folder / "model", "--input", path))
            self.assertIn("2381 rows in", evaluated.stdout)
        evaluated = self.succeed(run("eval", "--checkpoint", self.folder / "model", "--filter", "day = 1"))
        self.assertIn(f"{sum(day == 1 for day in days)} rows in", evaluated.stdout)
        self.fail_with(run("predict", "--checkpoint", self.folder / "model", "--input", test_csv, "--out", self.folder / "x.csv",
                           "--filter", "dya = 1"), 'did you mean "day"?')

    def test_a_model_reads_files_of_any_format(self):
        table = self.table()
        for trained in ("csv", "parquet"):
            self.succeed(self.train(self.write(table, trained), trained))
            expected, _ = self.predict(self.write(table, trained), "--keep", "city", model=trained)
            for kind in WRITERS:
                self.assertEqual(self.predict(self.write(table, kind), "--keep", "city", model=trained)[0], expected, kind)

    def test_fields_of_csv_files_may_hold_line_ends(self):
        chance = random.Random(7)
        table = self.table()
        notes = ["".join(chance.choice('ab\n\n",x\r') for _ in range(chance.randint(0, 40))) for _ in range(table.num_rows)]
        noted = table.append_column("note", [notes])
        path = self.folder / "data.csv"
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(noted.column_names)
            writer.writerows(zip(*noted.to_pydict().values()))
        self.succeed(self.train(path, "quoted"))
        self.succeed(self.train(self.write(table, "csv", "plain"), "plain"))
        self.assertEqual(self.learned("quoted"), self.learned("plain"))
        rows, _ = self.predict(path, "--keep", "note", model="quoted")
        self.assertEqual([note for note, _ in rows], notes)

    def test_a_csv_file_of_one_column_keeps_its_empty_rows(self):
        self.succeed(self.train(self.write(self.table(), "csv"), config=ONE_LABEL.replace('feature_names: "age"', "")))
        path = self.folder / "one.csv"
        pyarrow.csv.write_csv(pyarrow.table({"city": ["rome", None, "oslo", None]}), str(path))
        rows, _ = self.predict(path)
        self.assertEqual(len(rows), 4)
        self.assertEqual(rows[1], rows[3])
        self.assertNotEqual(rows[0], rows[1])

    def test_labels_of_two_numbers(self):
        table = self.table()
        self.succeed(self.train(self.write(table, "csv"), "plain"))
        clicks = table["clk"].to_pylist()
        for zero, one in ((1, 2), (-1, 1)):
            other = table.set_column(0, "clk", [[one if click else zero for click in clicks]])
            for kind in WRITERS:
                data = self.write(other, kind, "other")
                self.fail_with(self.train(data, "refused"), "set data_config.label_positive to the one that is 1")
                model = f"{kind}-{zero}"
                self.succeed(self.train(data, model, f'label_positive: "{one}"'))
                self.assertEqual(self.learned(model), self.learned("plain"), kind)

    def test_infinite_numbers_are_missing(self):
        table = self.table()
        ages = table["age"].to_pylist()
        infinite = [age if i % 10 else (float("inf"), float("-inf"))[i % 20 // 10] for i, age in enumerate(ages)]
        missing = [age if i % 10 else None for i, age in enumerate(ages)]
        for kind in WRITERS:
            self.succeed(self.train(self.write(table.set_column(3, "age", [missing]), kind), f"missing-{kind}"))
            process = self.succeed(self.train(self.write(table.set_column(3, "age", [infinite]), kind), f"infinite-{kind}"))
            self.assertRegex(process.stderr, r"\d+ infinite numbers were read as missing values")
            self.assertEqual(self.learned(f"infinite-{kind}"), self.learned(f"missing-{kind}"), kind)

    def test_a_positive_label_is_a_number_in_every_spelling(self):
        table = self.table()
        clicks = table["clk"].to_pylist()
        self.succeed(self.train(self.write(table, "csv"), "plain"))
        mixed = self.folder / "mixed.csv"
        with open(mixed, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table.column_names)
            for i, row in enumerate(zip(*(column.to_pylist() for column in table.columns))):
                writer.writerow([("1", "1.0")[i % 2] if clicks[i] else ("-1", "-1.0")[i % 2], *row[1:]])
        self.succeed(self.train(mixed, "mixed", 'label_positive: "1"'))
        self.assertEqual(self.learned("mixed"), self.learned("plain"))

    def test_codes_that_look_like_numbers_stay_apart(self):
        table = self.table()
        for name, codes in (("large", ["42E432", "43E432", "44E433", "45E434"]), ("equal", ["1E1", "10E0", "1E2", "100E0"])):
            words = dict(zip(["rome", "oslo", "bonn", "lima"], codes))
            data = self.write(table.set_column(2, "city", [[words[city] for city in table["city"].to_pylist()]]), "csv", name)
            self.succeed(self.train(data, name))
            means = {}
            for row in self.predict(data, "--keep", "city", model=name)[0]:
                means.setdefault(row[0], []).append(float(row[1]))
            apart = sorted(sum(values) / len(values) for values in means.values())
            self.assertEqual(len(apart), 4)
            self.assertGreater(apart[2] - apart[1], 0.5, apart)  # two cities are clicked

    def test_numbers_beyond_a_double_are_infinite_in_converted_files(self):
        self.succeed(self.train(self.write(self.table(), "csv")))
        data = self.folder / "large.csv"
        data.write_text("city,age\nrome,1e400\nrome,\nrome,0\nrome,-1e309\n")
        large = self.predict(data)[0]
        self.assertEqual(large[0], large[1])
        for kind in ("parquet", "arrow"):
            out = self.folder / f"converted-{kind}"
            self.succeed(run("convert", "--from", data, "--to", out, "--format", kind))
            self.assertEqual(self.predict(out)[0], large, kind)
        rows, _ = self.predict(data, "--filter", "age < 5", "--keep", "age")
        self.assertEqual([row[0] for row in rows], ["0", "-1e309"])

    def test_decimals_with_a_negative_scale(self):
        table = self.table()
        ages = [int(age) * 100 for age in table["age"].to_pylist()]
        self.succeed(self.train(self.write(table.set_column(3, "age", [[float(age) for age in ages]]), "arrow", "floats"), "floats"))
        decimals = pyarrow.array([decimal.Decimal(age) for age in ages], pyarrow.decimal128(10, -2))
        self.succeed(self.train(self.write(table.set_column(3, "age", decimals), "arrow", "decimals"), "decimals"))
        self.assertEqual(self.learned("decimals"), self.learned("floats"))

    def test_uuids_are_refused_by_column(self):
        table = self.table(64)
        values = pyarrow.array([bytes([i] * 16) for i in range(64)], pyarrow.binary(16))
        uuids = pyarrow.ExtensionArray.from_storage(pyarrow.uuid(), values)
        for kind in ("parquet", "arrow"):
            data = self.write(table.set_column(2, "city", uuids), kind)
            self.fail_with(self.train(data), 'column "city" is', "uuid", "expected numbers, text")

    def test_columns_of_one_name_are_refused(self):
        table = self.table(64)
        twice = pyarrow.Table.from_arrays([*table.columns, table["city"]], names=[*table.column_names, "city"])
        for kind in ("parquet", "arrow"):
            data = self.write(twice, kind)
            self.fail_with(self.train(data), 'several columns "city"')
            self.fail_with(run("convert", "--from", data, "--to", self.folder / "out", "--format", "csv"), "several columns")

    def test_soft_labels_are_learned(self):
        table = self.table()
        soft = [0.9 if click else 0.3 for click in table["clk"].to_pylist()]
        for kind in ("csv", "parquet"):
            data = self.write(table.set_column(0, "clk", [soft]), kind)
            self.succeed(self.train(data, kind, evaluation=f'eval_input_path: "{data}"'))
            rows, _ = self.predict(data, model=kind)
            mean = sum(float(row[0]) for row in rows) / len(rows)
            self.assertAlmostEqual(mean, sum(soft) / len(soft), delta=0.1)
        self.assertEqual(self.learned("csv"), self.learned("parquet"))
        bad = self.write(table.set_column(0, "clk", [[1.3] + soft[1:]]), "csv")
        self.fail_with(self.train(bad, "bad"), "label clk is 1.3")

    def test_a_label_that_is_missing_counts_for_no_loss_and_metric_of_its_tower(self):
        table = self.table()
        clicks = table["clk"].to_pylist()
        pay = [3.0 * click if i % 3 else None for i, click in enumerate(clicks)]
        masked = table.append_column("pay", [pay]).set_column(
            0, "clk", [[None if i % 5 == 1 and pay[i] is not None else click for i, click in enumerate(clicks)]])
        for kind in ("csv", "parquet"):
            data = self.write(masked, kind)
            process = self.succeed(self.train(data, kind, evaluation=f'eval_input_path: "{data}"', labels=("clk", "pay"),
                                              config=TWO_LABELS))
            self.assertRegex(process.stderr, r"\d+ labels were missing: their rows do not count for these labels")
            self.assertNotRegex(process.stdout, r"nan")
        self.assertEqual(self.learned("csv"), self.learned("parquet"))
        nothing = masked.set_column(0, "clk", [[None] + clicks[1:]]).set_column(4, "pay", [[None] + pay[1:]])
        self.fail_with(self.train(self.write(nothing, "csv"), "nothing", labels=("clk", "pay"), config=TWO_LABELS),
                       "all labels are missing")
        one = table.set_column(0, "clk", [[None] + clicks[1:]])
        self.fail_with(self.train(self.write(one, "csv"), "one"), "label clk is missing")

    def test_lists_of_parquet_with_a_dictionary_and_tiny_pages(self):
        rows = [["a", "b"], [], ["c"], None, ["a", "a", "b"], ["d"]] * 50
        table = pyarrow.table({"words": pyarrow.array(rows, pyarrow.list_(pyarrow.string())),
                               "ids": pyarrow.array([[1, 2], [], [3]] * 100, pyarrow.list_(pyarrow.int64()))})
        expected = self.folder / "expected"
        pyarrow.parquet.write_table(table, self.folder / "plain.parquet")
        self.succeed(run("convert", "--from", self.folder / "plain.parquet", "--to", expected, "--format", "csv"))
        for version in ("1.0", "2.0"):
            path, found = self.folder / f"tiny-{version}.parquet", self.folder / f"found-{version}"
            pyarrow.parquet.write_table(table, path, data_page_size=1, write_batch_size=1, data_page_version=version)
            self.succeed(run("convert", "--from", path, "--to", found, "--format", "csv"))
            self.assertEqual([file.read_text() for file in sorted(found.glob("*.csv"))],
                             [file.read_text() for file in sorted(expected.glob("*.csv"))])


if __name__ == "__main__":
    unittest.main()
