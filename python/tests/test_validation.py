"""emblem.cv: which rows its models learn and are evaluated on."""
import unittest
from unittest import mock

import numpy as np
import pandas
import polars
import pyarrow
from sklearn.model_selection import TimeSeriesSplit

import emblem
from emblem import validation
from folder import Folder
import rows


class FoldsTest(Folder):
    """The trainings are replaced by functions that keep their rows."""

    def split(self, data, pipeline=None, **options):
        pairs = []

        def keep(learned, pipeline, valid, **_):
            pairs.append((learned, valid))
            return mock.Mock(history=mock.Mock(evaluation={"auc": len(pairs)}))
        with mock.patch.object(validation, "train", keep):
            found = emblem.cv(data, pipeline, **options)
        return pairs, found

    def test_every_row_is_held_out_once(self):
        data = {"x": np.arange(100), "y": np.random.default_rng(1).normal(size=100)}
        for form in (data, pandas.DataFrame(data), polars.DataFrame(data), pyarrow.table(data), {**data, "x": data["x"].tolist()}):
            pairs, found = self.split(form, label="y", folds=4)
            held_out = np.concatenate([np.asarray(valid["x"]) for _, valid in pairs])
            self.assertEqual(sorted(held_out.tolist()), list(range(100)))
            self.assertEqual([len(valid["x"]) for _, valid in pairs], [25] * 4)
            self.assertEqual(found["auc"].tolist(), [1, 2, 3, 4])
        pairs, _ = self.split(np.stack([data["x"], data["y"]], axis=1), label="x1", folds=4)
        self.assertEqual(sorted(np.concatenate([valid[:, 0] for _, valid in pairs]).tolist()), list(range(100)))

    def test_classes_have_the_same_shares(self):
        for labels in (["a"] * 90 + ["b"] * 10, [0] * 90 + [1] * 10, [0.0] * 90 + [1.0] * 10):
            for _, valid in self.split({"x": np.arange(100), "y": np.array(labels)}, label="y", folds=5)[0]:
                self.assertEqual(int((valid["y"] == labels[-1]).sum()), 2)
        parts = self.split({"x": np.arange(100), "y": np.arange(100) < 10}, label="y", folds=5, stratify=False)[0]
        self.assertNotEqual([int(valid["y"].sum()) for _, valid in parts], [2] * 5)

    def test_groups_stay_together(self):
        user = np.random.default_rng(1).integers(0, 12, 100)
        data = {"user": user, "y": np.arange(100) % 2}
        for groups in ("user", user.astype(str)):
            pairs, _ = self.split(data, label="y", folds=3, groups=groups)
            for learned, valid in pairs:
                self.assertFalse(set(learned["user"]) & set(valid["user"]))
                self.assertTrue(20 < len(valid["y"]) < 47)
        for options, said in (({"groups": user[:5]}, r"groups have the shape \(5,\)"), ({"groups": "nosuch"}, "no column 'nosuch'"),
                              ({"groups": "user", "folds": 20}, "expected 2 to 12, the number of groups"),
                              ({"groups": "user", "stratify": True}, "stratify and groups")):
            with self.assertRaisesRegex(emblem.Error, said):
                self.split(data, label="y", **options)

    def test_folds_are_given(self):
        data = {"x": np.arange(20), "y": np.arange(20) % 2}
        pairs, _ = self.split(data, label="y", folds=[(range(10), range(10, 20)), (np.arange(5), [7])])
        self.assertEqual([valid["x"].tolist() for _, valid in pairs], [list(range(10, 20)), [7]])
        pairs, _ = self.split(data, label="y", folds=TimeSeriesSplit(4))
        self.assertEqual([valid["x"].tolist() for _, valid in pairs], [list(range(at, at + 4)) for at in (4, 8, 12, 16)])
        for folds in ([(range(10), [20])], [5], [([], [1])], 1, 21):
            with self.assertRaisesRegex(emblem.Error, "fold"):
                self.split(data, label="y", folds=folds)

    def test_models_are_returned(self):
        found, models = emblem.cv(rows.make(600), rows.PIPELINE, folds=3, return_models=True, progress=False, epochs=1)
        self.assertEqual((found["auc"].shape, len(models)), ((3,), 3))
        self.assertEqual(models[2].history.evaluation["auc"], found["auc"][2])


if __name__ == "__main__":
    unittest.main()
