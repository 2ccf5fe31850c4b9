"""emblem init: data as people have them, trained with the pipeline that init wrote and nothing else."""

import csv
import gzip
import io
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import unittest
from signal import SIGINT

from harness import EMBLEM, arrow_problem, becomes_true, require_arrow, run


def signal(rows, seed=3):
    """(label, fields): the label follows city and age, with noise."""
    chance = random.Random(seed)
    for _ in range(rows):
        city, age = chance.choice("abcdefgh"), chance.randint(18, 80)
        score = (city < "d") + (age > 50) + chance.random()
        yield int(score > 1.5), city, age, chance


class Init(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.config = self.folder / "pipeline.config"

    def write(self, name, text, encoding="utf-8"):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode(encoding))
        return path

    def csv(self, name, header, rows, delimiter=",", end="\n", mark=""):
        text = io.StringIO()
        writer = csv.writer(text, delimiter=delimiter, lineterminator=end)
        if header:
            writer.writerow(header)
        writer.writerows(rows)
        return self.write(name, mark + text.getvalue())

    def init(self, data, *options):
        return run("init", data, *options, "--out", self.config, cwd=self.folder)

    def auc(self, data, *options):
        """Of the rows held out, after training with the pipeline as it is."""
        return self.metric("auc", data, *options)

    def metric(self, name, data, *options):
        made = self.init(data, *options)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.made = made
        trained = run("train", "--config", self.config, cwd=self.folder)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertNotIn("warning", trained.stderr)
        lines = [line for line in trained.stdout.splitlines() if line.startswith("  evaluation")]
        words = lines[0].split()
        return float(words[words.index(name) + 1])

    def fails(self, *arguments, parts, status=1):
        process = run("init", *arguments, cwd=self.folder)
        self.assertEqual(process.returncode, status, process.stderr + process.stdout)
        self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)
        for part in parts:
            self.assertIn(part, process.stderr)

    def line_of(self, column):
        return next(line for line in self.made.stdout.splitlines() if line.startswith(column + " "))

    def test_a_plain_file_with_a_header(self):
        data = self.csv("a.csv", ["clk", "city", "age"], [row[:3] for row in signal(3000)])
        self.assertGreater(self.auc(data, "--label", "clk"), 0.75)
        self.assertIn("category", self.line_of("city"))
        self.assertIn("number", self.line_of("age"))
        self.assertIn(f"emblem train --config {self.config}", self.made.stdout)
        self.assertLessEqual(max(map(len, self.made.stdout.splitlines()[:4])), 100)
        for command in (["eval"], ["predict", "--input", data, "--out", "p.csv", "--keep", "city"]):
            done = run(*command, "--checkpoint", self.folder / "pipeline_model", cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_spreadsheet_export(self):
        """Byte order mark, semicolons, CRLF, quotes, text labels, missing values, dates, a constant and a row number."""
        rows = []
        for i, (clk, city, age, chance) in enumerate(signal(3000)):
            rows.append([i + 1, "yes" if clk else "no", f'city "{city}"; north', age if chance.random() < 0.8 else "?",
                         f"2024-{chance.randint(1, 12):02}-{chance.randint(1, 28):02} 10:00:00", "DE",
                         chance.choice(["", "NA", "3.5", "4.25", "1e3"])])
        data = self.csv("a.csv", ["Nr", "Bought", "City (of; buyer)", "Age", "When", "Land", "Score"], rows,
                        delimiter=";", end="\r\n", mark="\ufeff")
        self.assertGreater(self.auc(data, "--label", "Bought"), 0.7)
        self.assertIn("skipped: row number", self.line_of("Nr"))
        self.assertIn("days, weekday, month", self.line_of("When"))
        self.assertIn("skipped: constant", self.line_of("Land"))
        self.assertIn("number", self.line_of("Age"))
        pipeline = self.config.read_text()
        self.assertIn('"?"', pipeline)
        self.assertIn('expression: "item:City (of; buyer)"', pipeline)

    def test_a_file_without_a_header(self):
        data = self.csv("a.data", None, [[city, age, ">50K" if clk else "<=50K"] for clk, city, age, _ in signal(3000)])
        self.assertGreater(self.auc(data, "--label", "3"), 0.75)
        self.assertIn('label_positive: ">50K"', self.config.read_text())
        self.assertIn('input_name: "column{1..3}"', self.config.read_text())
        self.config.unlink()
        self.fails(data, "--label", "income", parts=['no column "income"', "column1 to column3", "--names"])
        shutil.rmtree(self.folder / "pipeline_model")
        self.assertGreater(self.auc(data, "--names", "city,age,income", "--label", "income"), 0.75)

    def test_text_without_a_header(self):
        rows = [["e" if clk else "p", city, "young" if age < 40 else "old"] for clk, city, age, _ in signal(3000)]
        data = self.csv("mushrooms.csv", None, rows)
        self.assertGreater(self.auc(data, "--label", "column1", "--label-positive", "p"), 0.75)
        self.assertIn("with_header: true", run("init", data, "--label", "e", "--header", "--out", "-").stdout)

    def test_lists_of_values(self):
        rows = []
        for clk, city, age, chance in signal(3000):
            likes = chance.sample("stuvwxyz", chance.randint(0, 3)) + (["hot"] if clk and chance.random() < 0.8 else [])
            rows.append([clk, "|".join(likes), " ".join(chance.sample("klmnopqr", 3))])
        data = self.csv("a.tsv", ["clk", "likes", "words"], rows, delimiter="\t")
        self.assertGreater(self.auc(data, "--label", "clk"), 0.75)
        self.assertIn("list", self.line_of("likes"))
        self.assertIn('separator: "|"', self.config.read_text())
        self.assertIn('separator: " "', self.config.read_text())

    def test_compressed_files_in_a_folder(self):
        rows = [",".join(map(str, row[:3])) for row in signal(4000)]
        (self.folder / "parts").mkdir()
        for i in range(2):
            text = "clk,city,age\n" + "\n".join(rows[i * 2000:(i + 1) * 2000]) + "\n"
            (self.folder / f"parts/{i}.csv.gz").write_bytes(gzip.compress(text.encode()))
        self.assertGreater(self.auc(self.folder / "parts", "--label", "clk"), 0.75)
        self.assertIn("4000 rows read", self.made.stdout)

    def test_formats_with_a_label_of_their_own(self):
        libfm = self.write("a.libfm", "".join(f"{1 if clk else -1} {ord(city)}:1 {1000 + age}:1\n"
                                              for clk, city, age, _ in signal(3000)))
        self.assertGreater(self.auc(libfm), 0.7)
        self.config.unlink()
        shutil.rmtree(self.folder / "pipeline_model")
        made = run("synth", "--preset", "criteo", "--rows", 3000, "--test-rows", 100, "--scale", "0.001", "--format", "tsv",
                   "--out", self.folder / "criteo")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertGreater(self.auc(self.folder / "criteo/train", "--eval", self.folder / "criteo/test"), 0.5)
        self.assertIn("eval_input_path", self.config.read_text())
        self.assertNotIn("holdout_ratio", self.config.read_text())

    def test_columns_of_any_name(self):
        header = ["clk", "a b", 'say "hi"', "x/y", "..", "größe", "user:name", "run{1..3}", "a_b", ""]
        rows = [[clk, city, age, city, age, city, city, city, age, i] for i, (clk, city, age, _) in enumerate(signal(2000))]
        self.assertGreater(self.auc(self.csv("a.csv", header, rows), "--label", "clk"), 0.75)
        self.assertIn("skipped: braces", self.line_of("run{1..3}"))
        self.assertIn("columns without a name in the header are skipped", self.made.stderr)

    def test_every_model(self):
        data = self.csv("a.csv", ["clk", "city", "age"], [row[:3] for row in signal(1000)])
        for model in ("deepfm", "dlrm", "dnn", "wide_and_deep", "dcn_v2", "fm", "lr"):
            with self.subTest(model):
                shutil.rmtree(self.folder / "pipeline_model", ignore_errors=True)
                self.assertGreater(self.auc(data, "--label", "clk", "--model", model, "--force"), 0.6)
        numbers = self.csv("n.csv", ["clk", "age"], [[clk, age] for clk, _, age, _ in signal(1000)])
        shutil.rmtree(self.folder / "pipeline_model")
        self.assertGreater(self.auc(numbers, "--label", "clk", "--force"), 0.6)
        self.fails(numbers, "--label", "clk", "--model", "dlrm", "--force", parts=["--model dlrm needs a column of categories"])

    def test_a_column_that_gives_the_label_away(self):
        rows = [[clk, city, age, "click" if clk else "none"] for clk, city, age, _ in signal(2000)]
        data = self.csv("a.csv", ["clk", "city", "age", "event"], rows)
        self.assertLess(self.auc(data, "--label", "clk"), 0.999)
        self.assertIn('column "event": equals the label', self.made.stderr)

    def test_few_rows(self):
        for count in (3, 30):
            rows = [[i % 2, "ab"[i % 2], i * 7 % 5] for i in range(count)]
            made = self.init(self.csv("a.csv", ["clk", "x", "n"], rows), "--label", "clk", "--force")
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertIn(f"only {count} rows", made.stderr)
            shutil.rmtree(self.folder / "pipeline_model", ignore_errors=True)
            trained = run("train", "--config", self.config, cwd=self.folder)
            self.assertEqual(trained.returncode, 0, trained.stderr)

    def test_a_label_of_several_classes(self):
        rows = [[("low", "mid", "high")[(city < "d") + (age > 50)], city, age] for _, city, age, _ in signal(3000)]
        data = self.csv("a.csv", ["level", "city", "age"], rows)
        self.assertGreater(self.metric("accuracy", data, "--label", "level"), 0.95)
        self.assertIn("label, 3 classes", self.line_of("level"))
        done = run("predict", "--checkpoint", self.folder / "pipeline_model", "--input", data, "--out", "p.csv",
                   cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.config.unlink()
        self.fails(data, "--label", "level", "--model", "lr", parts=["--model lr has one output", "3 classes"])

    def test_a_label_that_is_a_number(self):
        rows = [[f"{1e6 + 2e5 * (city < 'd') + 1e4 * age + 100 * chance.random():.2f}", city, age]
                for _, city, age, chance in signal(3000)]
        data = self.csv("a.csv", ["price", "city", "age"], rows)
        self.assertLess(self.metric("mean_absolute_error", data, "--label", "price"), 3e4)
        self.assertIn("label, a number", self.line_of("price"))
        done = run("predict", "--checkpoint", self.folder / "pipeline_model", "--input", data, "--out", "p.csv",
                   cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.folder / "p.csv", newline="") as lines:
            values = [float(row[0]) for row in list(csv.reader(lines))[1:]]
        apart = [abs(value - float(row[0])) for value, row in zip(values, rows)]
        self.assertLess(sum(apart) / len(apart), 3e4)

    def test_words_do_not_share_rows(self):
        """One of 100 buckets for both: AUC .48."""
        rows = [["web" if (clk and chance.random() < 0.9) else "desktop", clk] for clk, _, _, chance in signal(3000)]
        data = self.csv("a.csv", ["device", "clk"], rows)
        self.assertGreater(self.auc(data, "--label", "clk"), 0.85)
        self.assertIn('vocab_list: ["desktop", "web"]', self.config.read_text())

    def test_a_sentinel_is_a_missing_value(self):
        rows = [[clk, -999999999 if chance.random() < 0.02 else 40000 + 5000 * clk + int(4000 * chance.random())]
                for clk, _, _, chance in signal(3000)]
        data = self.csv("a.csv", ["clk", "income"], rows)
        self.assertGreater(self.auc(data, "--label", "clk"), 0.85)
        self.assertIn('column "income": -999999999, far from all other values', self.made.stderr)

    def test_missing_texts_of_one_column_are_values_of_others(self):
        rows = [[clk, "NA" if clk else chance.choice(["None", "DE", "FR"]), "?" if chance.random() < 0.3 else age]
                for clk, _, age, chance in signal(3000)]
        data = self.csv("a.csv", ["clk", "country", "age"], rows)
        self.assertGreater(self.auc(data, "--label", "clk", "--skip", "age"), 0.95)
        self.config.unlink()
        shutil.rmtree(self.folder / "pipeline_model")
        self.assertGreater(self.auc(data, "--label", "clk"), 0.95)
        self.assertIn('na_strings: ["?"]', self.config.read_text())

    def test_a_history_of_items_is_a_sequence(self):
        rows = []
        for _, _, _, chance in signal(4000):
            item = chance.randrange(40)
            history = [chance.randrange(40) for _ in range(chance.randint(1, 6))]
            clk = int(item in history or chance.random() < 0.1)
            rows.append([clk, f"i{item}", ";".join(f"i{one}" for one in history)])
        data = self.csv("a.csv", ["clk", "item", "clicked"], rows)
        self.auc(data, "--label", "clk")
        self.assertIn('sequence of "item"', self.line_of("clicked"))
        self.assertIn("din_encoder", self.config.read_text())

    def test_dates_and_amounts(self):
        rows = []
        for _, _, _, chance in signal(3000):
            hour, price = chance.randrange(24), chance.randrange(1000, 9999)
            clk = int((hour > 17) + (price > 5000) + chance.random() > 1.5)
            rows.append([clk, f"2024-{chance.randint(1, 12):02}-{chance.randint(1, 28):02} {hour:02}:15", f"${price:,}"])
        data = self.csv("a.csv", ["clk", "when", "price"], rows)
        self.assertGreater(self.auc(data, "--label", "clk"), 0.8)
        self.assertIn("amount", self.line_of("price"))
        self.assertIn("days, hour, weekday, month", self.line_of("when"))
        require_arrow()
        done = run("convert", "--from", data, "--to", self.folder / "parquet", "--format", "parquet", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        outputs = []
        for name, source, kind in (("a.p", data, "Csv"), ("b.p", self.folder / "parquet", "Parquet")):
            done = run("predict", "--checkpoint", self.folder / "pipeline_model", "--input", source, "--out", name,
                       "--set", f"data_config.dataset_type={kind}Dataset", cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            outputs.append((self.folder / name).read_text())
        self.assertEqual(outputs[0], outputs[1])

    def test_rows_in_another_order_and_format_are_split_alike(self):
        rows = [[clk, city, f"{age + chance.random():.3f}"] for clk, city, age, chance in signal(2000)]
        header = ["clk", "city", "age"]
        inputs = [self.csv("a.csv", header, rows), self.csv("b.csv", header, rows[::-1])]
        if not arrow_problem():
            inputs.append(self.folder / "parquet")
            done = run("convert", "--from", inputs[0], "--to", inputs[2], "--format", "parquet", cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.auc(inputs[0], "--label", "clk")
        holdouts, evaluated = [], []
        for data in inputs:
            made = self.init(data, "--label", "clk", "--force")
            self.assertEqual(made.returncode, 0, made.stderr)
            holdouts.append(re.findall(r"holdout_\w+: .*", self.config.read_text()))
            self.assertIn("holdout_fields", str(holdouts))
            # One model on the rows that are held out of each: its loss is another one on other rows.
            kind = re.search(r"dataset_type: (\w+)", self.config.read_text())[1]
            done = run("eval", "--checkpoint", self.folder / "pipeline_model", "--set", f"train_input_path={data}",
                       "--set", f"data_config.dataset_type={kind}", "--json", "e.json", cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            evaluated.append(json.loads((self.folder / "e.json").read_text()))
        for holdout, result in zip(holdouts[1:], evaluated[1:]):
            self.assertEqual(holdout, holdouts[0])
            self.assertEqual(result["rows"], evaluated[0]["rows"])
            self.assertAlmostEqual(result["log_loss"], evaluated[0]["log_loss"], places=10)

    def test_labels_that_are_not_binary(self):
        rows = [[1 + i % 5, "abc"[i % 3]] for i in range(500)]
        data = self.csv("a.csv", ["rating", "x"], rows)
        self.fails(data, "--label", "rating", "--task", "binary", parts=['label "rating" has 5 values', "--label-positive"])
        self.fails(data, "--label", "rating", "--label-positive", "9", parts=['no row of the sample has "9"'])
        self.auc(data, "--label", "rating", "--label-positive", "5")
        one = self.init(self.csv("b.csv", ["clk", "x"], [[0, "abc"[i % 3]] for i in range(500)]), "--label", "clk", "--force")
        self.assertEqual(one.returncode, 0)
        self.assertIn("warning: all 500 sampled rows have the label 0", one.stderr)
        missing = self.csv("c.csv", ["clk", "x"], [["" if i == 3 else i % 2, "abc"[i % 3]] for i in range(500)])
        self.fails(missing, "--label", "clk", "--force", parts=["is missing in 1 of 500 sampled rows", "--max-bad-rows"])
        self.assertEqual(self.init(missing, "--label", "clk", "--max-bad-rows", 5, "--force").returncode, 0)
        self.assertIn("max_bad_rows: 5", self.config.read_text())

    def test_errors_are_one_line(self):
        good = self.csv("good.csv", ["clk", "city", "age"], [row[:3] for row in signal(100)])
        for name, text, parts in (
                ("empty.csv", "", ["empty.csv is empty"]),
                ("header.csv", "clk,a\n", ["has no rows"]),
                ("ragged.csv", "clk,a\n1,2\n0,3,4\n", ["ragged.csv:3: found 3 columns, expected 2", "--max-bad-rows"]),
                ("twice.csv", "clk,a,a\n1,2,3\n", ['both called "a"']),
                ("blank.csv", "\n\n", ["blank.csv"]),
                ("unnamed.csv", ",\n1,2\n", ["no column with a name"]),
                ("only.csv", "clk\n1\n0\n", ["no column to learn from"]),
                ("unclosed.csv", 'clk,a\n1,"x\n0,y\n', ["unclosed.csv:2", "quoted field is not closed"]),
                ("binary.csv", "a\0b\0c\n", ["is not text"])):
            self.write(name, text)
            self.fails(name, "--label", "clk", parts=parts)
        self.fails("nosuch.csv", "--label", "clk", parts=["nosuch.csv", "No such file"])
        self.fails(good, "--label", "clik", parts=['did you mean "clk"?'])
        self.fails(good, "--label", "nosuch", parts=['its columns are "clk", "city", "age"'])
        self.fails(good, parts=["--label NAME is required", '"clk" ("'])
        self.fails(good, "--label", "clk", "--eval", "header.csv", parts=["header.csv"])
        self.fails(good, "--label", "clk", "--numbers", "city", parts=['column "city" is not numeric'])
        self.fails(good, "--label", "clk", "--names", "a,b", parts=["has 3 columns, but 2 names"])
        self.fails(good, "--label", "clk", "--delimiter", "ab", parts=["--delimiter", "one character"])
        self.fails(good, "--label", "clk", "--model", "tree", parts=["--model", "deepfm"], status=2)
        self.assertFalse((self.folder / "pipeline.config").exists())

    def test_files_of_other_programs(self):
        rows = list(signal(300))
        text = "clk,city,age\n" + "".join(f"{clk},K\xf6ln {city},{age}\n" for clk, city, age, _ in rows)
        self.write("latin.csv", text, encoding="latin-1")
        self.fails("latin.csv", "--label", "clk",
                   parts=["latin.csv:2 is not UTF-8 (byte 0xf6)", "iconv -f CP1252 -t UTF-8"])
        self.write("mac.csv", text.replace("\n", "\r"))
        self.fails("mac.csv", "--label", "clk", parts=["line ends are CR only", "tr '\\r' '\\n'"])
        self.auc(self.write("utf.csv", text), "--label", "clk")
        self.write("semicolons.csv", text.replace(",", ";"))
        model = self.folder / "pipeline_model"
        for name, status, part in (("latin.csv", 0, "latin.csv:2 is not UTF-8 (byte 0xf6)"),
                                   ("semicolons.csv", 1, 'looks as if the delimiter were ";"')):
            done = run("eval", "--checkpoint", model, "--input", name, cwd=self.folder)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual(done.stderr.count(part), 1, done.stderr)

    def test_an_undefined_auc_is_explained(self):
        rows = [("ja" if clk else "nein", city, age) for clk, city, age, _ in signal(400)]
        data = self.csv("a.csv", ["clk", "city", "age"], rows)
        self.auc(data, "--label", "clk", "--label-positive", "ja")
        model = self.folder / "pipeline_model"
        for name, value, part in (("no.csv", "nein", 'labels are 0; no row has the label_positive "ja"\n'),
                                  ("yes.csv", "ja", "labels are 1\n")):
            some = [row for row in rows if row[0] == value]
            self.csv(name, ["clk", "city", "age"], some)
            done = run("eval", "--checkpoint", model, "--input", name, cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"auc is not defined: all {len(some)} {part}", done.stderr)
        trained = run("train", "--config", self.config, "--model-dir", "other", "--set", "eval_input_path=no.csv",
                      "--set", "data_config.holdout_ratio=0", "--set", "train_config.num_epochs=3", cwd=self.folder)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertEqual(trained.stderr.count("auc is not defined: all"), 1, trained.stderr)

    def test_names_with_a_comma_are_in_quotes(self):
        rows = [(clk, city, age) for clk, city, age, _ in signal(300)]
        data = self.csv("a.csv", ["clk", "Stadt, Land", "age"], rows)
        self.auc(data, "--label", "clk", "--categories", '"Stadt, Land",age')
        self.assertIn("category", self.line_of("age"))
        done = run("predict", "--checkpoint", self.folder / "pipeline_model", "--input", data, "--out", "p.csv",
                   "--keep", 'age,"Stadt, Land"', cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.folder / "p.csv", newline="") as lines:
            self.assertEqual(next(csv.reader(lines)), ["age", "Stadt, Land", "prediction"])
        self.fails(data, "--label", "clk", "--skip", '"Stadt, Land', parts=["a quoted name is not closed"], status=2)

    def test_one_mistake_leaves_a_column_of_numbers(self):
        rows = [(clk, city, "oops" if i == 200 else age) for i, (clk, city, age, _) in enumerate(signal(1000))]
        self.auc(self.csv("a.csv", ["clk", "city", "age"], rows), "--label", "clk")
        self.assertIn("number", self.line_of("age"))
        self.assertIn('column "age": 1 of 1000 values is not a number ("oops"); treated as missing', self.made.stderr)

    def test_rows_that_were_not_read_may_be_odd(self):
        rows = [[label, city, age + 0.5, f"2024-05-{1 + age % 28:02}", ("low", "middle", "high")[label + (age > 70)]]
                for label, city, age, _ in signal(40000)]
        rows[20001][2], rows[20003][3], rows[20005][4] = "oops", "someday", "purple"
        data = self.csv("a.csv", ["clk", "city", "age", "day", "kind"], rows)
        for label in ("clk", "kind"):
            made = self.init(data, "--label", label, "--rows", 2000, "--skip", "kind" if label == "clk" else "clk",
                             "--force")
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertRegex(made.stderr, "[0-9]+ of about [0-9.]+ ?[a-zA-Z]* ?rows were read: others may hold values of "
                             r"another form, and up to [0-9]+ rows that cannot be read are skipped")
            trained = run("train", "--config", self.config, "--model-dir", self.folder / label, "--set",
                          "train_config.num_epochs=2", cwd=self.folder)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            self.assertRegex(trained.stdout, "skipped +[0-9]+ bad rows")
            made = self.init(data, "--label", label, "--rows", 0, "--max-bad-rows", 3, "--force")
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertIn("max_bad_rows: 3 ", self.config.read_text())

    def test_an_existing_file_is_kept(self):
        data = self.csv("a.csv", ["clk", "city", "age"], [row[:3] for row in signal(100)])
        self.config.write_text("mine")
        self.fails(data, "--label", "clk", parts=["pipeline.config exists", "--force"])
        self.assertEqual(self.config.read_text(), "mine")
        self.fails("nosuch.csv", "--label", "clk", parts=["nosuch.csv"])
        self.fails(data, "--label", "clik", parts=['did you mean "clk"?'])
        self.fails(data, "--label", "1", parts=["numbers are for files without a header", '"clk", "city", "age"'])
        self.fails(data, "--label", "clk", "--out", data, "--force", parts=["is also the input"])
        printed = run("init", data, "--label", "clk", "--out", "-", cwd=self.folder)
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertTrue(printed.stdout.startswith("# Written by emblem init"))
        self.assertIn("category", printed.stderr)
        self.assertEqual(self.init(data, "--label", "clk", "--force").returncode, 0)
        self.assertIn("train_input_path", self.config.read_text())

    def test_a_search_for_settings(self):
        data = self.csv("a.csv", ["clk", "city", "age"], [row[:3] for row in signal(400)])
        found = []
        for threads in (1, 2):
            made = self.init(data, "--label", "clk", "--force", "--tune", "1500", "--threads", threads)
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertRegex(made.stdout, r"search: \d+ trials, .* steps; log_loss [\d.]+ -> [\d.]+ on rows kept from training")
            self.assertRegex(made.stdout, r"\n  as chosen by the data +\+0.00 %  kept: [\d.]+\n")
            found.append((made.stdout, self.config.read_text()))
        self.assertEqual(found[0], found[1])
        self.config.unlink()
        self.fails(data, "--label", "clk", "--tune", "5", parts=["a search of 5 training steps; expected 1000 to 1000000000"])
        self.assertFalse(self.config.exists())

    def test_a_search_that_is_interrupted_leaves_nothing(self):
        data = self.csv("a.csv", ["clk", "city", "age"], [row[:3] for row in signal(2000)])
        folder = self.folder / "tmp"
        folder.mkdir()
        process = subprocess.Popen([EMBLEM, "init", data, "--label", "clk", "--out", self.config, "--tune", "100M"],
                                   env={**os.environ, "TMPDIR": str(folder)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertTrue(becomes_true(lambda: list(folder.glob("emblem_tune_*"))))
        process.send_signal(SIGINT)
        _, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, error)
        self.assertIn("interrupted: the search ended in trial", error)
        self.assertFalse(self.config.exists())
        self.assertEqual(list(folder.iterdir()), [])

    @unittest.skipUnless(os.environ.get("EMBLEM_REAL_DATA"), "EMBLEM_REAL_DATA is not set")
    def test_census_income(self):
        shutil.unpack_archive(pathlib.Path(os.environ["EMBLEM_REAL_DATA"]) / "census-income.tar.xz", self.folder)
        rows = (self.folder / "census-income/census-income.data").read_text().splitlines(keepends=True)
        data = self.folder / "census.data"
        data.write_text("".join(rows[:20000]))
        self.assertGreater(self.auc(data, "--label", "42", "--weight", "25"), 0.93)
        self.assertIn('label_positive: "50000+."', self.config.read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
