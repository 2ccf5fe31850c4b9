"""What `emblem init` writes, beside boosted trees and a DeepFM of PyTorch with their defaults, on public tables.

    python3 bench/peers/tables.py --emblem build/release/emblem --packages DIR [--real DIR] [--rows dev|test] [TABLE ...]

DIR has archives of PyPI packages (tables_data.py lists them), --real the folder with census-income.tar.xz. Rows are
shuffled with a fixed seed: 70 % are trained on, 10 % are "dev", 20 % "test". Defaults were chosen by dev alone.
scikit-learn, LightGBM, CatBoost and PyTorch are measured where they are installed."""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import pandas as pd

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests"))
import linear_model  # noqa: E402
import tables_data  # noqa: E402


class Emblem:
    """init, train and predict of the program, from CSV files."""

    def __init__(self, program, options=()):
        self.program, self.options = program, options

    def __call__(self, table, train, rows, seed):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-tables-"))
        try:
            train.to_csv(folder / "train.csv", index=False)
            rows.to_csv(folder / "rows.csv", index=False)
            self.run(folder, "init", "train.csv", "--label", table.label, *self.options)
            self.run(folder, "train", "--config", "pipeline.config", "--set", f"train_config.seed={seed}")
            self.run(folder, "predict", "--checkpoint", "pipeline_model", "--input", "rows.csv", "--out", "p.csv")
            return pd.read_csv(folder / "p.csv").to_numpy()[:, 0]
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def run(self, folder, *arguments):
        done = subprocess.run([self.program, *arguments], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"emblem {arguments[0]}: {done.stderr[-800:]}")


def columns_of(table, frames):
    """Features of each frame; texts are categories of the same values in all."""
    first, *others = [frame.drop(columns=table.label) for frame in frames]
    texts = [name for name in first if not pd.api.types.is_numeric_dtype(first[name])]
    for name in texts:
        values = first[name].astype(str).where(first[name].notna())
        kind = pd.CategoricalDtype(sorted(values.dropna().unique()))
        first[name] = values.astype(kind)
        for frame in others:
            frame[name] = frame[name].astype(str).where(frame[name].notna()).astype(kind)
    return [first, *others], texts


def boosted(fit):
    """A peer with fit(task, train, labels, texts, seed) -> model."""
    def predictions(table, train, rows, seed):
        (x, z), texts = columns_of(table, (train, rows))
        model = fit(table.task, x, train[table.label], texts, seed)
        return model.predict_proba(z)[:, 1] if table.task == "binary" else model.predict(z)
    return predictions


def histogram(task, x, y, texts, seed):
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    kind = HistGradientBoostingClassifier if task == "binary" else HistGradientBoostingRegressor
    return Codes(kind(random_state=seed, categorical_features=[name for name in texts if x[name].nunique() <= 255]),
                 [name for name in texts if x[name].nunique() > 255]).fit(x, y)


class Codes:
    """Categories of more values than a model takes become their numbers."""

    def __init__(self, model, names):
        self.model, self.names = model, names

    def coded(self, x):
        return x.assign(**{name: x[name].cat.codes.replace(-1, np.nan) for name in self.names})

    def fit(self, x, y):
        self.model.fit(self.coded(x), y)
        return self

    def predict(self, x):
        return self.model.predict(self.coded(x))

    def predict_proba(self, x):
        return self.model.predict_proba(self.coded(x))


def light(task, x, y, texts, seed):
    import lightgbm
    kind = lightgbm.LGBMClassifier if task == "binary" else lightgbm.LGBMRegressor
    return kind(random_state=seed, verbose=-1).fit(x, y)


def cat_boost(task, x, y, texts, seed):
    import catboost
    kind = catboost.CatBoostClassifier if task == "binary" else catboost.CatBoostRegressor

    class Texts(kind):
        def fit(self, x, y):
            return super().fit(self.filled(x), y)

        def predict(self, x):
            return super().predict(self.filled(x))

        def predict_proba(self, x):
            return super().predict_proba(self.filled(x))

        @staticmethod
        def filled(x):
            return x.assign(**{name: x[name].astype(object).fillna("") for name in texts})

    return Texts(random_seed=seed, verbose=False, allow_writing_files=False, cat_features=texts).fit(x, y)


def deep_fm(table, train, rows, seed):
    import torch_tables
    (x, z), texts = columns_of(table, (train, rows))
    return torch_tables.predict(table.task, x, train[table.label].to_numpy(), texts, z, seed)


def split(table, seed=11):
    """(train, dev, test): frames in a fixed random order."""
    frame = table.frame
    order = np.random.default_rng(seed).permutation(len(frame))
    ends = [int(len(frame) * share) for share in (0.7, 0.8)]
    return [frame.iloc[part].reset_index(drop=True) for part in np.split(order, ends)]


def score(table, rows, predicted):
    return linear_model.metric(table.task, rows[table.label].to_numpy(), np.asarray(predicted, dtype=float))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emblem", default="build/release/emblem", type=pathlib.Path)
    parser.add_argument("--packages", required=True, type=pathlib.Path)
    parser.add_argument("--real", type=pathlib.Path)
    parser.add_argument("--rows", choices=("dev", "test"), default="test")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--systems", default="emblem,histogram,lightgbm,catboost,deepfm")
    parser.add_argument("--init", default="", help="options of emblem init, separated by spaces")
    parser.add_argument("--json", type=pathlib.Path, help="results are added to this file, a line each")
    parser.add_argument("tables", nargs="*")
    options = parser.parse_args()
    systems = {"emblem": Emblem(options.emblem.resolve(), options.init.split()), "histogram": boosted(histogram),
               "lightgbm": boosted(light), "catboost": boosted(cat_boost), "deepfm": deep_fm}
    for table in tables_data.tables(options.packages, options.real):
        if options.tables and table.name not in options.tables:
            continue
        train, dev, test = split(table)
        rows = dev if options.rows == "dev" else test
        for name in options.systems.split(","):
            for seed in range(1, options.seeds + 1):
                begin = time.perf_counter()
                value = score(table, rows, systems[name](table, train, rows, seed))
                result = {"table": table.name, "task": table.task, "rows": len(train), "system": name, "seed": seed,
                          "part": options.rows, "value": round(value, 5), "seconds": round(time.perf_counter() - begin, 1)}
                print(json.dumps(result), flush=True)
                if options.json:
                    with options.json.open("a") as out:
                        out.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
