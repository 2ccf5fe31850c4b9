"""Whatever emblem init accepts, it writes a pipeline for that trains: random columns, labels, gaps and formats."""

import csv
import os
import pathlib
import random
import shutil
import tempfile
import unittest

from harness import run

SEEDS = int(os.environ.get("EMBLEM_INIT_SEEDS", "40"))


def numbers(chance):
    scale, whole = 10 ** chance.randint(-3, 9), chance.random() < 0.5
    return lambda: str(int(scale * chance.gauss(0, 1))) if whole else f"{scale * chance.gauss(0, 1):.4g}"


def with_sentinel(chance):
    value = chance.choice(["-999", "-1", "99", "9999999999", "-2147483648", "1e30"])
    number = numbers(chance)
    return lambda: value if chance.random() < 0.05 else number()


def words(chance):
    count = chance.choice([2, 3, 9, 50, 400])
    texts = [chance.choice(["", " ", "ä", "x|", "a,b", '"', "New ", "\\", "007", "true", "1.0", "NA"]) + str(i)
             for i in range(count)]
    return lambda: chance.choice(texts)


def flags(chance):
    pair = chance.choice([("True", "False"), ("yes", "no"), ("0", "1"), ("NA", "None"), ("1.0", "0.0"), ("T", "F")])
    return lambda: chance.choice(pair)


def dates(chance):
    form = chance.choice(["{y}-{m:02}-{d:02}", "{m}/{d}/{y}", "{d}.{m}.{y}", "{y}-{m:02}-{d:02} {h:02}:30:00",
                          "{y}-{m:02}-{d:02}T{h:02}:30:00Z", "{y}{m:02}{d:02}", "{d}/{m}/{y} {h}:15"])
    return lambda: form.format(y=chance.randint(1999, 2030), m=chance.randint(1, 12), d=chance.randint(1, 28),
                               h=chance.randrange(24))


def times(chance):
    unit = chance.choice([1, 1000, 1000000])
    return lambda: str((1700000000 + chance.randrange(10 ** 7)) * unit)


def amounts(chance):
    form = chance.choice(["${:,}", "{:,}", "{:,.2f} EUR", "{} %"])
    return lambda: form.format(chance.randrange(100000))


def commas(chance):
    return lambda: f"{chance.uniform(-99, 99):.2f}".replace(".", ",")


def lists(chance):
    between, size = chance.choice("|; ,"), chance.choice([4, 30])
    return lambda: between.join(f"i{chance.randrange(size)}" for _ in range(chance.randint(0, 5)))


def constant(chance):
    text = chance.choice(["", "x", "0", "NA", "2024-01-01"])
    return lambda: text


def unique(chance):
    prefix, made = chance.choice(["", "u", "0"]), iter(range(10 ** 9))
    return lambda: f"{prefix}{next(made) * 7919 % 1000003}"


COLUMNS = [numbers, with_sentinel, words, flags, dates, times, amounts, commas, lists, constant, unique]


def holes(chance, value):
    share, text = chance.choice([0, 0, 0.05, 0.5, 0.99]), chance.choice(["", "NA", "?", "-", "null", "inf", "oops"])
    return lambda: text if chance.random() < share else value()


def label(chance):
    kind = chance.randrange(5)
    if kind == 0:
        return lambda: str(chance.randrange(2))
    if kind == 1:
        pair = chance.choice([("good", "bad"), ("1", "2"), ("-1", "1"), ("yes", "no")])
        return lambda: chance.choice(pair)
    if kind == 2:
        return lambda: chance.choice(["red", "green", "a b", 'say "hi"'])
    if kind == 3:
        return lambda: str(chance.randint(1, 7))
    return numbers(chance)


class Fuzz(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def check(self, seed):
        chance = random.Random(seed)
        makers = [("target", label(chance))]
        for i in range(chance.randint(1, 8)):
            name = chance.choice(["c", "x y", "time", "user_id", "größe", "date", "n%", "at"]) + str(i)
            makers.append((name, holes(chance, chance.choice(COLUMNS)(chance))))
        chance.shuffle(makers)
        data = self.folder / "a.csv"
        delimiter = chance.choice(",,;\t")
        with open(data, "w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
            writer.writerow([name for name, _ in makers])
            for _ in range(chance.choice([20, 60, 400, 1500])):
                writer.writerow([make() for _, make in makers])
        if chance.random() < 0.3:
            done = run("convert", "--from", data, "--to", self.folder / "p", "--format", "parquet", cwd=self.folder)
            if done.returncode == 0:
                data = self.folder / "p"
        made = run("init", data, "--label", "target", "--force", cwd=self.folder)
        if made.returncode != 0:
            self.assertEqual((made.returncode, len(made.stderr.splitlines())), (1, 1), made.stderr)
            return made.stderr
        shutil.rmtree(self.folder / "pipeline_model", ignore_errors=True)
        trained = run("train", "--config", "pipeline.config", "--set", "train_config.num_epochs=2", cwd=self.folder)
        self.assertEqual(trained.returncode, 0, trained.stderr[-2000:])
        done = run("predict", "--checkpoint", "pipeline_model", "--input", data, "--out", "p.csv", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return ""

    def test_what_init_writes_trains(self):
        refused = 0
        for seed in range(SEEDS):
            with self.subTest(seed):
                refused += self.check(seed) != ""
        self.assertLess(refused, SEEDS / 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
