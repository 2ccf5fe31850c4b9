#!/usr/bin/env python3
"""What share of the rate of `bench infer` a server reaches with requests of as many rows, on the same cores.

    bench/serve_share.py --emblem build/release/emblem --server-cores 0,2 --client-cores 4-15

Trains and exports facebookresearch/dlrm's model for Kaggle, measures it without a server, then serves it in closed loop.
The client has cores of its own, so that its CPU time is not the server's."""

import argparse
import json
import pathlib
import subprocess
import tempfile

from slo import PIPELINE, Bench

KAGGLE = (PIPELINE.replace("[512, 256, 16]", "[512, 256, 64, 16]").replace("[1024, 1024, 512, 256]", "[512, 256]")
          .replace("hash_bucket_size: 100000", "hash_bucket_size: 46000")
          .replace("final {{", "arch_with_sparse: false final {{"))


def infer_rows(options, folder):
    """Rows per second without a server."""
    path = folder / "infer.json"
    subprocess.run(["taskset", "-c", options.server_cores, options.emblem, "bench", "infer", "--batch", str(options.batch),
                    "--threads", str(options.engines), "--json", path], check=True, stdout=subprocess.DEVNULL)
    return json.loads(path.read_text())[0]["metrics"]["samples_per_second"]["value"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--emblem", default="build/release/emblem")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--server-cores", default="0,1")
    parser.add_argument("--client-cores", default="2-15")
    parser.add_argument("--engines", type=int, default=2)
    parser.add_argument("--http-threads", type=int, default=2)
    parser.add_argument("--protocols", default="http,grpc")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="emblem-share-") as name:
        folder = pathlib.Path(name)
        bench = Bench(options, folder, KAGGLE)
        alone = infer_rows(options, folder)
        print(f"bench infer, {options.batch} rows: {alone:.0f} rows/s")
        for protocol in options.protocols.split(","):
            got = bench.load("0", "--concurrency", options.concurrency, "--batch", options.batch,
                             "--alpha", 1.05, protocol=protocol)
            rows = got["requests_per_second"] * options.batch
            print(f"{protocol}, {options.concurrency} requests at a time: {rows:.0f} rows/s, {rows / alone:.0%} of it; "
                  f"p99 {got['p99'] * 1e6:.0f} us, {got['server_rows_per_batch']:.0f} rows per batch, "
                  f"{got['cpu_us']:.0f} us of the server's CPU time a request")


if __name__ == "__main__":
    main()
