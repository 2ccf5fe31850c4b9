#!/usr/bin/env python3
"""Emblem and PyTorch on the ranking models of rank_configs.py in one run, by turns, and the ratio of their speeds.

  bench/peers/rank_suite.py --emblem build/release/emblem --out build/rank [MODEL ...]
  bench/peers/rank_suite.py --device cpu --threads 2 --batch 2048 --divide-tables 10

Both learn from batches that are in device memory (of a CPU: host memory), in bf16 on a GPU and fp32 on a CPU. Emblem's come
from a CSV file that is written first, with the same distributions of keys and of lengths as PyTorch's.
Prints a line per model and writes OUT/rank.json: [{"model", "emblem_ms", "torch_ms", "ratio", "share_of_floor", ...}].
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tests" / "peers")]

from features import features_of  # noqa: E402
from pbtxt import parse  # noqa: E402
from rank_configs import pipelines  # noqa: E402


def power_law(rows, rng, exponent=1.05):
    power = 1.0 - exponent
    key = int((1.0 + rng.random() * ((rows + 1.0) ** power - 1.0)) ** (1.0 / power)) - 1
    return min(max(key, 0), rows - 1)


class Column:
    """Texts of a feature. Keys are drawn from a list made beforehand: a power function a key would take minutes."""

    DRAWS = 1 << 16

    def __init__(self, feature, rng):
        self.feature, self.rng = feature, rng
        if feature.is_sparse:
            self.draws = [str(power_law(feature.rows, rng)) for _ in range(self.DRAWS)]

    def text(self, length):
        if self.feature.sequence_delim:
            at = self.rng.randrange(self.DRAWS - length)
            return self.feature.sequence_delim.join(self.draws[at:at + length])
        if self.feature.is_sparse:
            return self.draws[self.rng.randrange(self.DRAWS)]
        return f"{self.rng.gauss(0, 1):.4f}"


def write_rows(path, pipeline, rows):
    rng = random.Random(1)
    labels = pipeline.get("data_config").all("label_fields")
    columns = [Column(feature, rng) for feature in features_of(pipeline).values()]
    longest = max(column.feature.max_length for column in columns)
    with open(path, "w") as out:
        out.write(",".join([*labels, *(column.feature.name for column in columns)]) + "\n")
        for _ in range(rows):
            length = rng.randint(0, longest)
            values = ["1" if rng.random() < 0.2 else "0" for _ in labels]
            out.write(",".join([*values, *(column.text(length) for column in columns)]) + "\n")


def run_emblem(name, text, arguments):
    """The result of `emblem bench train`, an object of docs/formats.md."""
    folder = pathlib.Path(arguments.out)
    pipeline = parse(text)
    columns = "_".join([*pipeline.get("data_config").all("label_fields"), *features_of(pipeline)])
    longest = max(feature.max_length for feature in features_of(pipeline).values())
    rows = folder / f"rows_{abs(hash_of(columns))}_{longest}_{arguments.batch}_{arguments.divide_tables}.csv"
    if not rows.exists():
        write_rows(rows, pipeline, arguments.batch * arguments.batches)
    config, result = folder / f"{name}.config", folder / f"{name}.json"
    config.write_text(text + f'train_input_path: "{rows}"\nmodel_dir: "{folder}/model"\n')
    command = [arguments.emblem, "bench", "train", "--config", config, "--input", "device", "--distinct", arguments.batches,
               "--device", arguments.device, "--seconds", arguments.seconds, "--json", result]
    command += ["--threads", arguments.threads] if arguments.device == "cpu" else ["--precision", "bf16"]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    found = json.loads(result.read_text())
    return found[0] if isinstance(found, list) else found


def hash_of(text):
    value = 0
    for char in text.encode():
        value = (value * 1099511628211 + char) % (1 << 32)
    return value


def run_torch(name, arguments):
    command = [arguments.python, HERE / "torch_rank.py", name, "--device", arguments.device, "--batch", arguments.batch,
               "--divide-tables", arguments.divide_tables, "--threads", arguments.threads, "--batches", arguments.batches]
    if arguments.device == "cpu":
        command += ["--steps", "3", "--repeats", "3", "--warmup", "2"]
    done = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(name, text, arguments):
    torch = run_torch(name, arguments)
    emblem = run_emblem(name, text, arguments)
    rate = emblem["metrics"]["samples_per_second"]["value"]
    ms = arguments.batch / rate * 1000
    return {"model": name, "emblem_ms": round(ms, 4), "torch_ms": torch["ms"], "ratio": round(torch["ms"] / ms, 3),
            "variant": torch["variant"], "torch_all": torch["all"], "shares": emblem.get("shares", {}),
            "stages": emblem.get("stages", {})}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--emblem", default="build/release/emblem")
    parser.add_argument("--python", default=sys.executable, help="with PyTorch")
    parser.add_argument("--out", default="build/rank")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--threads", type=int, default=2, help="of a CPU")
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--batches", type=int, default=8, help="distinct ones, used in turn")
    parser.add_argument("--divide-tables", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2)
    arguments = parser.parse_args()
    pathlib.Path(arguments.out).mkdir(parents=True, exist_ok=True)
    texts, found, failed = pipelines(arguments.batch, arguments.divide_tables), [], []
    for name in arguments.models or texts:
        try:
            found.append(compare(name, texts[name], arguments))
        except subprocess.CalledProcessError as error:
            failed.append(name)
            print(f"{name}: {' '.join(error.cmd)} failed ({error.returncode})", file=sys.stderr, flush=True)
            continue
        one = found[-1]
        print(f"{one['model']:18} emblem {one['emblem_ms']:9.3f} ms   torch {one['torch_ms']:9.3f} ms ({one['variant']})   "
              f"{one['ratio']:.2f} x", flush=True)
        (pathlib.Path(arguments.out) / "rank.json").write_text(json.dumps(found, indent=1))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
