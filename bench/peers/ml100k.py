#!/usr/bin/env python3
"""Emblem's configs/retrieval/ml100k.config beside iALS (ials.py) on ml-100k: recall@20 and NDCG@20 over all films.

    pip download recbole==1.2.1 --no-deps -d DIR
    python3 bench/peers/ml100k.py --emblem build/release/emblem --packages DIR --out build/ml100k

Every rating is a choice. Of each user the last 20 % of the ratings, by time, are for testing, and the 10 % before them for
validation; films that the user has rated before are not ranked. --part validation trains without the latter and measures on them:
settings of both were chosen so (--grid prints iALS's). Needs NumPy. Times are those of the CPU, of all threads."""
import argparse
import json
import pathlib
import resource
import shutil
import subprocess
import time

import ials
import numpy as np
from ml100k_data import Ratings

K, HISTORY = 20, 100
CONFIG = pathlib.Path(__file__).resolve().parent.parent.parent / "configs/retrieval/ml100k.config"
TUNED = ials.Settings(dim=128, unobserved=0.3, ridge=0.01)
GRID = [ials.Settings(dim, unobserved, ridge) for dim in (32, 64, 128) for unobserved in (0.03, 0.1, 0.3)
        for ridge in (0.003, 0.01, 0.03, 0.1)]
GRID += [ials.Settings(dim, unobserved, ridge, frequency) for dim in (16, 32, 64) for unobserved in (0.2, 0.3, 0.5, 1)
         for frequency, ridges in ((1, (0.003, 0.006, 0.01)), (0.5, (0.03, 0.1, 0.3))) for ridge in ridges]


def run_ials(ratings, part, of, seed):
    """Recall, NDCG and seconds."""
    begin = time.process_time()
    known = ratings.known(part)
    scores = ials.train(known, ratings.users_of(known), of, seed)
    seconds = time.process_time() - begin
    return *ials.metrics(scores, known, getattr(ratings, part), K), seconds


def run_popular(ratings, part):
    known = ratings.known(part)
    counts = np.array([len(users) for users in ratings.users_of(known)], float)
    return ials.metrics(np.tile(counts, (ratings.users, 1)), known, getattr(ratings, part), K)


class Emblem:
    def __init__(self, arguments, folder):
        self.program, self.threads, self.folder = arguments.emblem, arguments.threads, folder
        self.settings = [word for setting in arguments.set for word in ("--set", setting)]

    def run(self, *words):
        done = subprocess.run([self.program, *map(str, words), "--threads", self.threads], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)

    def __call__(self, seed):
        folder, model, out = self.folder, self.folder / "model", self.folder / "found.json"
        shutil.rmtree(model, ignore_errors=True)
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.run("train", "--config", CONFIG, "--train-input", folder / "train.csv", "--eval-input", folder / "test.csv",
                 "--model-dir", model, "--set", f"data_config.negative_sampler.input_path={folder / 'items.txt'}", "--set",
                 f"train_config.seed={seed}", *self.settings)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.run("eval", "--checkpoint", model, "--input", folder / "test.csv", "--items", folder / "items.csv", "--item-id", "item",
                 "--user-id", "user", "--seen", folder / "train.csv", "--k", K, "--json", out)
        found = json.loads(out.read_text())
        return found[f"full_recall@{K}"], found[f"full_ndcg@{K}"], end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


def show(name, runs):
    recall, ndcg, seconds = (np.array(column) for column in zip(*runs))
    deviation = [values.std(ddof=1) if len(values) > 1 else 0 for values in (recall, ndcg)]
    print(f"{name}: recall@{K} {recall.mean():.4f} ± {deviation[0]:.4f}, NDCG@{K} {ndcg.mean():.4f} ± {deviation[1]:.4f}, "
          f"{seconds.mean():.1f} s of the CPU, {len(runs)} seeds", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emblem", default="build/release/emblem")
    parser.add_argument("--packages", required=True, help="folder with an archive of recbole")
    parser.add_argument("--out", default="build/ml100k")
    parser.add_argument("--part", choices=["validation", "test"], default="test")
    parser.add_argument("--models", default="popular,ials,emblem")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--set", action="append", default=[], help="of Emblem's pipeline, as emblem train --set")
    parser.add_argument("--grid", action="store_true", help="iALS with each setting of the grid, on validation rows")
    arguments = parser.parse_args()
    ratings, models = Ratings(arguments.packages), arguments.models.split(",")
    if arguments.grid:
        for of in GRID:
            show(of, [run_ials(ratings, "validation", of, 1)])
        return
    if "popular" in models:
        show("the most popular", [(*run_popular(ratings, arguments.part), 0)])
    if "ials" in models:
        show(f"iALS, {TUNED}", [run_ials(ratings, arguments.part, TUNED, seed + 1) for seed in range(arguments.seeds)])
    if "emblem" in models:
        folder = pathlib.Path(arguments.out) / arguments.part
        ratings.write(folder, arguments.part, HISTORY)
        emblem = Emblem(arguments, folder)
        show(CONFIG.name, [emblem(seed + 1) for seed in range(arguments.seeds)])


if __name__ == "__main__":
    main()
