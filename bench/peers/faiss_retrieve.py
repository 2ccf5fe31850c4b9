#!/usr/bin/env python3
"""faiss on the workloads of `emblem bench retrieve`, in the format of emblem's results.

faiss multiplies by BLAS where queries x dim reach a threshold (faiss.cvar.distance_compute_blas_threshold of 1.12 and later:
queries x dim); both settings are measured: its default, and BLAS forced. One thread; times are CPU times of the process, as
`emblem bench retrieve --threads 1` takes them.

    python3 -m venv venv && venv/bin/pip install faiss-cpu numpy
    venv/bin/python bench/peers/faiss_retrieve.py --items 1000000 --dim 128 --users 1,16,64 --json faiss.json
"""

import argparse
import datetime
import json
import time

import faiss
import numpy as np
from machine import machine


def draw(options, rng, count, centers):
    if not options.topics:
        return rng.standard_normal((count, options.dim), dtype=np.float32)
    topics = np.minimum(options.topics ** rng.random(count) - 1, options.topics - 1).astype(np.int64)
    noise = rng.standard_normal((count, options.dim), dtype=np.float32)
    return centers[topics] + np.float32(options.noise) * noise


def seconds_of(search, queries, users, seconds):
    batches = max(1, len(queries) // users)
    search(queries[:users])
    times, start = [], time.monotonic()
    while len(times) < 5 or time.monotonic() - start < seconds:
        at = len(times) % batches * users
        begin = time.process_time()
        search(queries[at:at + users])
        times.append(time.process_time() - begin)
    return float(np.median(times)), min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1000000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--users", default="1,16,64")
    parser.add_argument("--top-k", type=int, default=100)
    parser.add_argument("--kind", choices=["flat", "ivf_flat"], default="flat")
    parser.add_argument("--similarity", choices=["inner_product", "cosine"], default="inner_product")
    parser.add_argument("--lists", type=int, default=1000)
    parser.add_argument("--probes", default="16", help="one result for each")
    parser.add_argument("--topics", type=int, default=0)
    parser.add_argument("--noise", type=float, default=0.5)
    parser.add_argument("--data", help="folder that `emblem bench retrieve --data` wrote: search the same vectors")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json")
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    rng = np.random.default_rng(11)
    centers = rng.standard_normal((max(1, options.topics), options.dim), dtype=np.float32)
    if options.data:
        items, queries = (np.fromfile(f"{options.data}/{name}.f32", np.float32).reshape(-1, options.dim)
                          for name in ("items", "queries"))
    else:
        items, queries = draw(options, rng, options.items, centers), draw(options, rng, 4096, centers)
    options.items = len(items)
    if options.similarity == "cosine":
        faiss.normalize_L2(items)
        faiss.normalize_L2(queries)
    exact = faiss.IndexFlatIP(options.dim)
    exact.add(items)
    default = faiss.cvar.distance_compute_blas_threshold
    variants = [("default", default, exact, 0), ("blas", 1, exact, 0)]
    if options.kind == "ivf_flat":
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(options.dim), options.dim, options.lists, faiss.METRIC_INNER_PRODUCT)
        index.train(items)
        index.add(items)
        variants = [("default", default, index, int(probes)) for probes in options.probes.split(",")]
    results = []
    for users in map(int, options.users.split(",")):
        for name, threshold, index, probes in variants:
            faiss.cvar.distance_compute_blas_threshold = threshold
            metrics, settings = {}, {}
            if probes:
                index.nprobe = probes
                best, found = (of.search(queries[:1000], options.top_k)[1] for of in (exact, index))
                shares = [len(set(a) & set(b)) / options.top_k for a, b in zip(best, found)]
                metrics[f"recall_at_{options.top_k}"] = {"value": float(np.mean(shares)), "unit": "", "higher_is_better": True}
                settings["probes"] = probes
            usual, least = seconds_of(lambda some, of=index: of.search(some, options.top_k), queries, users, options.seconds)
            metrics = {"queries_per_second": {"value": users / usual, "unit": "queries/s", "higher_is_better": True},
                       "search_seconds": {"value": usual, "unit": "s", "higher_is_better": False},
                       "best_search_seconds": {"value": least, "unit": "s", "higher_is_better": False}, **metrics}
            results.append({
                "schema": 1, "benchmark": "retrieve", "program": f"faiss-cpu {faiss.__version__} ({name})",
                "name": f"retrieve-{options.kind}-n{options.items}-d{options.dim}-k{options.top_k}-fp32-u{users}"
                        + ("-cosine" if options.similarity == "cosine" else "")
                        + (f"-topics{options.topics}" if options.topics else ""),
                "machine": machine(), "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "settings": {"items": options.items, "dim": options.dim, "users": users, "top_k": options.top_k,
                             "blas_threshold": threshold, "threads": 1, "clock": "cpu", **settings},
                "metrics": metrics})
            print(f"{results[-1]['name']} {results[-1]['program']}, BLAS threshold {threshold}"
                  + (f", {probes} probes, recall {np.mean(shares):.3f}" if probes else "")
                  + f": {usual * 1e3:.2f} ms, best {least * 1e3:.2f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
