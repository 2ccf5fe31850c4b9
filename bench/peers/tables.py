"""What `emblem init` writes, beside boosted trees and a DeepFM of PyTorch with their defaults, on public tables.

    python3 bench/peers/tables.py --emblem build/release/emblem --packages DIR [--real DIR] [--rows dev,test] [TABLE ...]

DIR has archives of PyPI packages (tables_data.py lists them), --real the folder with census-income.tar.xz. Rows are
shuffled with a fixed seed: 70 % are trained on, 10 % are "dev", 20 % "test". Defaults were chosen by dev alone.
A line of JSON for each training: a value for each part, seconds, and seconds of the CPU. --summary FILE makes tables of
such lines."""
import argparse
import json
import os
import pathlib
import resource
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
import tables_summary  # noqa: E402


class Emblem:
    """init, train and predict of the program, from CSV files."""

    def __init__(self, program, threads, options=(), settings=()):
        self.program, self.threads, self.options = program, threads, options
        self.settings = [text for setting in settings for text in ("--set", setting)]

    def __call__(self, table, train, parts, seed):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-tables-"))
        try:
            train.to_csv(folder / "train.csv", index=False)
            self.run(folder, "init", "train.csv", "--label", table.label, *self.options)
            self.run(folder, "train", "--config", "pipeline.config", "--threads", str(self.threads), "--set",
                     f"train_config.seed={seed}", *self.settings)
            return [self.predictions(folder, rows) for rows in parts]
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def predictions(self, folder, rows):
        rows.to_csv(folder / "rows.csv", index=False)
        self.run(folder, "predict", "--checkpoint", "pipeline_model", "--input", "rows.csv", "--out", "p.csv", "--threads",
                 str(self.threads))
        return pd.read_csv(folder / "p.csv").to_numpy()[:, 0]

    def run(self, folder, *arguments):
        done = subprocess.run([self.program, *arguments], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"emblem {arguments[0]}: {done.stderr[-800:]}")


def columns_of(table, frames):
    """Features of each frame, named x0, x1, ...; texts are categories of the values of the first."""
    frames = [frame.drop(columns=table.label) for frame in frames]
    frames = [frame.set_axis([f"x{i}" for i in range(frame.shape[1])], axis=1) for frame in frames]
    texts = [name for name in frames[0] if not pd.api.types.is_numeric_dtype(frames[0][name])]
    for name in texts:
        known = sorted(frames[0][name].dropna().astype(str).unique())
        for frame in frames:
            values = frame[name].astype(str)
            frame[name] = pd.Categorical(values.where(frame[name].notna() & values.isin(known), None), categories=known)
    return frames, texts


def boosted(fit, threads):
    """A peer with fit(task, train, labels, texts, seed, threads) -> model."""
    def predictions(table, train, parts, seed):
        (x, *others), texts = columns_of(table, (train, *parts))
        model = fit(table.task, x, train[table.label], texts, seed, threads)
        return [model.predict_proba(z)[:, 1] if table.task == "binary" else model.predict(z) for z in others]
    return predictions


def histogram(task, x, y, texts, seed, threads):  # its threads are those of OMP_NUM_THREADS
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


def light(task, x, y, texts, seed, threads):
    import lightgbm
    kind = lightgbm.LGBMClassifier if task == "binary" else lightgbm.LGBMRegressor
    return kind(random_state=seed, verbose=-1, n_jobs=threads).fit(x, y)


def cat_boost(task, x, y, texts, seed, threads):
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

    return Texts(random_seed=seed, verbose=False, allow_writing_files=False, cat_features=texts, thread_count=threads).fit(x, y)


def deep_fm(threads):
    def predictions(table, train, parts, seed):
        import torch_tables
        (x, *others), texts = columns_of(table, (train, *parts))
        return torch_tables.predict(table.task, x, train[table.label].to_numpy(), texts, others, seed, threads)
    return predictions


def split(table, seed=11):
    """(train, dev, test): frames in a fixed random order."""
    frame = table.frame
    order = np.random.default_rng(seed).permutation(len(frame))
    ends = [int(len(frame) * share) for share in (0.7, 0.8)]
    return [frame.iloc[part].reset_index(drop=True) for part in np.split(order, ends)]


def score(table, rows, predicted):
    return linear_model.metric(table.task, rows[table.label].to_numpy(), np.asarray(predicted, dtype=float))


def cpu_seconds():
    """Of this process and of those that it has started and that have ended."""
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(system, table, train, parts, seed):
    begin, cpu = time.perf_counter(), cpu_seconds()
    predicted = system(table, train, list(parts.values()), seed)
    values = {name: round(score(table, rows, p), 5) for (name, rows), p in zip(parts.items(), predicted)}
    return {**values, "seconds": round(time.perf_counter() - begin, 1), "cpu": round(cpu_seconds() - cpu, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emblem", default="build/release/emblem", type=pathlib.Path)
    parser.add_argument("--packages", type=pathlib.Path)
    parser.add_argument("--real", type=pathlib.Path)
    parser.add_argument("--rows", default="test", help="dev, test or dev,test")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--systems", default="emblem,histogram,lightgbm,catboost,deepfm")
    parser.add_argument("--init", default="", help="options of emblem init, separated by spaces")
    parser.add_argument("--set", default="", help="settings of emblem train, separated by spaces")
    parser.add_argument("--note", default="", help="added to the name of the system")
    parser.add_argument("--json", type=pathlib.Path, help="results are added to this file, a line each")
    parser.add_argument("--summary", type=pathlib.Path, help="prints tables of the lines of this file; trains nothing")
    parser.add_argument("tables", nargs="*")
    options = parser.parse_args()
    if options.summary:
        return tables_summary.show(options.summary, options.rows)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    threads = options.threads
    systems = {"emblem": Emblem(options.emblem.resolve(), threads, options.init.split(), options.set.split()),
               "histogram": boosted(histogram, threads), "lightgbm": boosted(light, threads),
               "catboost": boosted(cat_boost, threads), "deepfm": deep_fm(threads)}
    for table in tables_data.tables(options.packages, options.real):
        if options.tables and table.name not in options.tables:
            continue
        train, dev, test = split(table)
        parts = {name: rows for name, rows in (("dev", dev), ("test", test)) if name in options.rows.split(",")}
        for name in options.systems.split(","):
            for seed in range(1, options.seeds + 1):
                result = {"table": table.name, "task": table.task, "rows": len(train), "system": name + options.note,
                          "seed": seed, **measure(systems[name], table, train, parts, seed)}
                print(json.dumps(result), flush=True)
                if options.json:
                    with options.json.open("a") as out:
                        out.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
