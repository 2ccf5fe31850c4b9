#!/usr/bin/env python3
"""Criteo-shaped Parquet by others, next to `emblem bench loader`, alternating in one run.

All give the same batches: labels [batch], dense values log(x + 3) [batch, 13], keys int64 [batch, 26], as tensors.

  scanner     pyarrow's dataset scanner with `--workers` threads, each batch converted to tensors
  dataloader  torch's DataLoader with `--workers` processes, each reading row groups with pyarrow
  emblem      emblem bench loader on the same files; with --raw also on the same rows in the Raw format

Needs pyarrow, numpy and torch. Prints rows a second, medians over the rounds, and emblem's ratio to each.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

DENSE = [f"I{i}" for i in range(1, 14)]
SPARSE = [f"C{i}" for i in range(1, 27)]
COLUMNS = ["label", *DENSE, *SPARSE]


def tensors(batch):
    """A record batch or table as (labels, dense, keys)."""
    def column(name, missing, kind):
        values = batch.column(name)
        if values.null_count:
            values = values.fill_null(missing)
        return values.to_numpy(zero_copy_only=False) if isinstance(values, pyarrow.Array) else values.to_numpy()
    dense = numpy.stack([column(name, 0, numpy.float32) for name in DENSE], axis=1).astype(numpy.float32, copy=False)
    keys = numpy.stack([column(name, 0, numpy.int64) for name in SPARSE], axis=1).astype(numpy.int64, copy=False)
    labels = column("label", 0, numpy.float32).astype(numpy.float32, copy=False)
    return torch.from_numpy(numpy.ascontiguousarray(labels)), torch.log(torch.from_numpy(dense) + 3), torch.from_numpy(keys)


def scanner(files, batch, workers):
    pyarrow.set_cpu_count(workers)
    scan = pyarrow.dataset.dataset(files, format="parquet").scanner(columns=COLUMNS, batch_size=batch, use_threads=True)
    return sum(len(tensors(part)[0]) for part in scan.to_batches())


class RowGroups(IterableDataset):
    def __init__(self, files, batch):
        self.batch = batch
        self.groups = [(file, group) for file in files for group in range(pyarrow.parquet.ParquetFile(file).num_row_groups)]

    def __iter__(self):
        worker = get_worker_info()
        mine = self.groups[worker.id::worker.num_workers] if worker else self.groups
        for file, group in mine:
            table = pyarrow.parquet.ParquetFile(file).read_row_group(group, columns=COLUMNS, use_threads=False)
            for begin in range(0, table.num_rows, self.batch):
                yield tensors(table.slice(begin, self.batch))


def dataloader(files, batch, workers):
    loader = DataLoader(RowGroups(files, batch), batch_size=None, num_workers=workers, prefetch_factor=4)
    return sum(len(labels) for labels, _, _ in loader)


def rate(function, *arguments):
    start = time.perf_counter()
    rows = function(*arguments)
    return rows / (time.perf_counter() - start)


def emblem(program, config, path, batch, workers, seconds):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "results.json"
        subprocess.run([program, "bench", "loader", "--config", config, "--input", path, "--workers", str(workers), "--batch",
                        str(batch), "--shuffle", "off", "--rounds", "1", "--seconds", str(seconds), "--json", str(out)],
                       check=True, capture_output=True)
        results = json.loads(out.read_text())
    return (results[0] if isinstance(results, list) else results)["metrics"]["samples_per_second"]["value"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="a folder of Parquet files")
    parser.add_argument("--raw", help="the same rows as HugeCTR Raw")
    parser.add_argument("--emblem", default="build/release/emblem")
    parser.add_argument("--config", default="configs/criteo/dlrm.config")
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    files = sorted(str(path) for path in pathlib.Path(options.data).glob("*.parquet"))
    runs = {
        "scanner": lambda: rate(scanner, files, options.batch, options.workers),
        "dataloader": lambda: rate(dataloader, files, options.batch, options.workers),
        "emblem": lambda: emblem(options.emblem, options.config, options.data, options.batch, options.workers, options.seconds),
    }
    if options.raw:
        runs["emblem raw"] = lambda: emblem(options.emblem, options.config, options.raw, options.batch, options.workers,
                                            options.seconds)
    rates = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name, run in runs.items():
            rates[name].append(run())
    middle = {name: statistics.median(values) for name, values in rates.items()}
    for name, values in middle.items():
        print(f"{name:<12} {values / 1e6:8.2f} M rows/s   emblem / {name}: {middle['emblem'] / values:.2f}")


if __name__ == "__main__":
    main()
