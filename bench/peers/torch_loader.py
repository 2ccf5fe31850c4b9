#!/usr/bin/env python3
"""Criteo-shaped files by PyTorch's DataLoader: the counterpart of `emblem bench loader`.

The same files and the same batches in the same order: labels [batch], dense values log(x + 3) [batch, 13], keys int64
[batch, 26]. Of three implementations, the fastest is written to --json under the name of emblem's result:

  rows        a Dataset of rows, collated by the DataLoader, as in its tutorial
  batches     a Dataset of whole batches; binary formats are read with NumPy, text is parsed line by line
  vectorized  the same, with text parsed by NumPy for all rows of a batch at once

Offsets of batches in text files are determined before timing starts; emblem determines them while it reads.
"""

import argparse
import datetime
import itertools
import json
import math
import os
import pathlib
import statistics
import sys
import time
import warnings

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

import torch_dlrm_cpu as dlrm

DENSE, SPARSE = 13, 26
RECORD = 1 + DENSE + SPARSE
CHECKED_ROWS = 10000
VARIANTS = ("rows", "batches", "vectorized")


# ---- formats: read(begin, end) gives the rows of a file as (labels, dense, keys) --------------------

def finish(labels, dense, keys):
    dense = np.log(dense.astype(np.float32) + np.float32(3))
    return labels.astype(np.float32), dense, keys.astype(np.int64)


class Raw:
    """HugeCTR Raw: records of 40 int32."""

    def __init__(self, files, _):
        self.records = [np.memmap(file, np.uint32, "r").reshape(-1, RECORD) for file in files]
        self.rows = [len(records) for records in self.records]

    def read(self, file, begin, end):
        block = np.array(self.records[file][begin:end])
        return finish(block[:, 0], block[:, 1:1 + DENSE].view(np.int32), block[:, 1 + DENSE:])


class Split:
    """SOK's split binary by rows: label.bin, dense.bin, category.bin, all of int32."""

    def __init__(self, folders, _):
        def table(folder, name, columns):
            return np.memmap(pathlib.Path(folder) / name, np.uint32, "r").reshape(-1, columns)
        self.tables = [(table(f, "label.bin", 1), table(f, "dense.bin", DENSE), table(f, "category.bin", SPARSE))
                       for f in folders]
        self.rows = [len(labels) for labels, _, _ in self.tables]

    def read(self, file, begin, end):
        labels, dense, keys = (np.array(table[begin:end]) for table in self.tables[file])
        return finish(labels[:, 0], dense.view(np.int32), keys)


class Tsv:
    """Criteo TSV, a missing value counting 0."""

    def __init__(self, files, variant):
        self.files = files
        self.parse = parse_vectorized if variant == "vectorized" else parse_lines
        self.starts = [line_starts(file) for file in files]  # of each line, and the end
        self.rows = [len(starts) - 1 for starts in self.starts]

    def read(self, file, begin, end):
        first, last = int(self.starts[file][begin]), int(self.starts[file][end])
        with open(self.files[file], "rb") as source:
            source.seek(first)
            return self.parse(source.read(last - first))


def line_starts(path):
    starts, at = [np.zeros(1, np.int64)], 0
    with open(path, "rb") as file:
        while chunk := file.read(1 << 24):
            starts.append(np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + at + 1)
            at += len(chunk)
    found = np.concatenate(starts)
    return found if found[-1] == at else np.append(found, at)


def parse_lines(text):
    rows = [line.split(b"\t") for line in text.splitlines()]
    labels = np.array([int(row[0]) for row in rows])
    dense = np.array([[int(v) if v else 0 for v in row[1:1 + DENSE]] for row in rows])
    keys = np.array([[int(v, 16) if v else 0 for v in row[1 + DENSE:]] for row in rows])
    return finish(labels, dense, keys)


# Values of hexadecimal digits.
HEX = np.zeros(256, np.int64)
for digit in b"0123456789abcdefABCDEF":
    HEX[digit] = int(chr(digit), 16)


def parse_vectorized(text):
    """Finds all fields of all lines, then parses digit by digit for all fields at once."""
    data = np.frombuffer(text if text.endswith(b"\n") else text + b"\n", np.uint8)
    ends = np.flatnonzero((data == ord("\t")) | (data == ord("\n"))).reshape(-1, RECORD)
    begins = np.empty_like(ends)
    begins.ravel()[0], begins.ravel()[1:] = 0, ends.ravel()[:-1] + 1
    begin, length = begins[:, :1 + DENSE], (ends - begins)[:, :1 + DENSE]
    negative = (data[begin] == ord("-")) & (length > 0)
    numbers = np.zeros(begin.shape, np.int64)
    for position in range(int(length.max())):
        digit = data[np.minimum(begin + position, len(data) - 1)].astype(np.int64) - ord("0")
        inside = (position < length) & (digit >= 0)
        numbers = np.where(inside, numbers * 10 + digit, numbers)
    numbers = np.where(negative, -numbers, numbers)
    begin, length = begins[:, 1 + DENSE:], (ends - begins)[:, 1 + DENSE:]
    keys = np.zeros(begin.shape, np.int64)
    for position in range(8):
        keys = keys * 16 + HEX[data[np.minimum(begin + position, len(data) - 1)]]
    return finish(numbers[:, 0], numbers[:, 1:], np.where(length > 0, keys, 0))


FORMATS = {"tsv": Tsv, "raw": Raw, "split": Split}


def format_of(path):
    if (pathlib.Path(path) / "label.bin").exists():
        return "split"
    return "raw" if files_of(path)[0].endswith(".bin") else "tsv"


def files_of(path):
    folder = pathlib.Path(path)
    if (folder / "label.bin").exists():
        return [str(folder)]
    return sorted(str(f) for f in folder.iterdir() if f.is_file()) if folder.is_dir() else [str(folder)]


# ---- data sets and samplers -------------------------------------------------------------------------

class Rows(Dataset):
    def __init__(self, source):
        self.source, self.ends = source, np.cumsum(source.rows)

    def __len__(self):
        return int(self.ends[-1])

    def __getitem__(self, row):
        file = int(np.searchsorted(self.ends, row, side="right"))
        at = row - int(self.ends[file] - self.source.rows[file])
        labels, dense, keys = self.source.read(file, at, at + 1)
        return labels[0], dense[0], keys[0]


class Batches(Dataset):
    """Batch i has rows [i * size, (i + 1) * size) of the concatenated files."""

    def __init__(self, source, size):
        self.source, self.size, self.ends = source, size, np.cumsum(source.rows)

    def __len__(self):
        return math.ceil(int(self.ends[-1]) / self.size)

    def __getitem__(self, index):
        at, end = index * self.size, min((index + 1) * self.size, int(self.ends[-1]))
        parts = []
        while at < end:
            file = int(np.searchsorted(self.ends, at, side="right"))
            start = int(self.ends[file] - self.source.rows[file])
            stop = min(end, int(self.ends[file]))
            parts.append(self.source.read(file, at - start, stop - start))
            at = stop
        whole = parts[0] if len(parts) == 1 else [np.concatenate(p) for p in zip(*parts)]
        return tuple(torch.from_numpy(part) for part in whole)


class Forever(Sampler):
    """Repeats epochs without end, so that workers keep running; shuffled if a seed is given."""

    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __iter__(self):
        for epoch in itertools.count():
            if self.seed is None:
                yield from range(self.count)
            else:
                yield from np.random.default_rng((self.seed, epoch)).permutation(self.count).tolist()


def make_loader(source, variant, batch, workers, prefetch, seed):
    depth = max(1, round(prefetch / workers))  # prefetch_factor of a DataLoader is per worker
    if variant == "rows":
        data = Rows(source)
        return DataLoader(data, batch_size=batch, sampler=Forever(len(data), seed), num_workers=workers,
                          prefetch_factor=depth)
    data = Batches(source, batch)
    return DataLoader(data, batch_size=None, sampler=Forever(len(data), seed), num_workers=workers,
                      prefetch_factor=depth)


# ---- measurement ------------------------------------------------------------------------------------

def cpu_seconds(pids):
    total = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def memory_bytes(pids):
    """The memory of all processes; shared pages are counted once."""
    total = 0
    for pid in pids:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def measure(loader, seconds):
    made = time.perf_counter()
    batches = iter(loader)
    next(batches)
    pids = [os.getpid(), *(worker.pid for worker in batches._workers)]
    first = time.perf_counter() - made
    cpu, times, rows = cpu_seconds(pids), [], 0
    start = last = time.perf_counter()
    while last - start < seconds:
        labels, _, _ = next(batches)
        now = time.perf_counter()
        times.append(now - last)
        rows += len(labels)
        last = now
    return {"rate": rows / sum(times), "rows": rows, "seconds": sum(times), "times": times, "first": first,
            "cpu": (cpu_seconds(pids) - cpu) / sum(times), "memory": memory_bytes(pids)}


def check(source):
    rows = min(CHECKED_ROWS, sum(source.rows))
    labels, dense, keys = Batches(source, rows)[0]
    return {"check_rows": rows, "check_labels": float(labels.sum(dtype=torch.float64)),
            "check_dense": float(dense.sum(dtype=torch.float64)),
            "check_keys": str(int(keys.sum()) % 2**64)}


def fill_page_cache(files):
    for path in files:
        for file in (pathlib.Path(path).iterdir() if os.path.isdir(path) else [path]):
            with open(file, "rb") as source:
                while source.read(1 << 24):
                    pass


def bytes_of(files):
    return sum(f.stat().st_size for path in files
               for f in (pathlib.Path(path).iterdir() if os.path.isdir(path) else [pathlib.Path(path)]))


def result_json(arguments, name, form, files, variant, workers, batch, prefetch, runs, rates, checked, rows):
    def metric(value, unit, higher=False, spread=0.0):
        return {"value": value, "unit": unit, "higher_is_better": higher, **({"spread": spread} if spread else {})}
    times = sorted(t for run in runs for t in run["times"])
    speeds = [run["rate"] for run in runs]
    bytes_a_row = bytes_of(files) / rows
    seconds = sum(run["seconds"] for run in runs)
    at = lambda share: times[min(len(times) - 1, math.ceil(share * len(times)) - 1)]
    return {
        "schema": 1, "benchmark": "loader", "name": name, "program": f"pytorch {torch.__version__.split('+')[0]}",
        "machine": dlrm.machine(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "settings": {"format": form, "files": len(files), "workers": workers, "batch": batch,
                     "prefetch_batches": prefetch, "shuffle": arguments.shuffle, "page_cache": "warm",
                     "rounds": arguments.rounds, "seconds_a_round": arguments.seconds, "variant": variant,
                     **{f"samples_per_second_{v}": round(rate, 1) for v, rate in rates.items()}, **checked},
        "metrics": {
            "samples_per_second": metric(statistics.median(speeds), "samples/s", True, (max(speeds) - min(speeds)) / 2),
            "bytes_per_second": metric(bytes_a_row * sum(run["rows"] for run in runs) / seconds, "B/s", True),
            "batch_seconds_p50": metric(at(0.5), "s"),
            "batch_seconds_p99": metric(at(0.99), "s"),
            "batch_variation": metric(100 * statistics.pstdev(times) / statistics.fmean(times), "%"),
            "consumer_wait": metric(100.0, "%"),  # the consumer does nothing else
            "cpu_use": metric(statistics.fmean(run["cpu"] for run in runs), "cores"),
            "peak_memory": metric(max(run["memory"] for run in runs), "B"),
            "first_batch_seconds": metric(statistics.fmean(run["first"] for run in runs), "s"),
        },
    }


def check_against(expected, name, checked):
    """Fails if the sums over the first rows differ from those of emblem."""
    for result in expected:
        if result["name"] != name or "check_keys" not in result["settings"]:
            continue
        for key, value in checked.items():
            theirs = result["settings"][key]
            same = theirs == value if isinstance(value, (str, int)) else math.isclose(theirs, value, rel_tol=1e-5)
            if not same:
                sys.exit(f"{name}: {key} is {value}, but emblem has {theirs}: not the same rows")
        return True
    return False


def numbers(text):
    return [int(part) for part in text.split(",")]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", action="append", required=True, help="PATH or LABEL=PATH, tsv, raw or split (repeatable)")
    parser.add_argument("--workers", type=numbers, default=[1, 2])
    parser.add_argument("--batch", type=numbers, default=[8192])
    parser.add_argument("--prefetch", type=numbers, default=[8], help="batches parsed ahead, in total for all workers")
    parser.add_argument("--shuffle", action="store_true", help="batches, or rows, in random order")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="variants to time, of %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each, alternating")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds per measurement")
    parser.add_argument("--expect", help="results of emblem, whose sums over the first rows must be equal")
    parser.add_argument("--json", help="write the fastest variants' results here")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="This DataLoader will create")  # more workers than cores: intended
    expected = json.loads(pathlib.Path(arguments.expect).read_text()) if arguments.expect else []
    expected = expected if isinstance(expected, list) else [expected]
    results = []
    for text in arguments.input:
        label, _, path = text.rpartition("=")
        form, files = format_of(path), files_of(path)
        variants = [v for v in arguments.variants.split(",") if form == "tsv" or v != "vectorized"]
        fill_page_cache(files)
        sources = {v: FORMATS[form](files, v) for v in variants}
        checked = check(sources[variants[-1]])
        for workers, batch, prefetch in itertools.product(arguments.workers, arguments.batch, arguments.prefetch):
            name = f"{label or form}-w{workers}-b{batch}-p{prefetch}" + ("-shuffled" if arguments.shuffle else "")
            same = check_against(expected, name, checked)
            runs = {v: [] for v in variants}
            for _, v in itertools.product(range(arguments.rounds), variants):
                loader = make_loader(sources[v], v, batch, workers, prefetch, 1 if arguments.shuffle else None)
                runs[v].append(measure(loader, arguments.seconds))
            rates = {v: statistics.median(run["rate"] for run in r) for v, r in runs.items()}
            best = max(rates, key=rates.get)
            told = ", ".join(f"{v} {rate:,.0f}" for v, rate in rates.items())
            print(f"{name:28} samples/s: {told}{'; same rows as emblem' if same else ''}", flush=True)
            results.append(result_json(arguments, name, form, files, best, workers, batch, prefetch, runs[best], rates,
                                       checked, sum(sources[best].rows)))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
