#!/usr/bin/env python3
"""PyTorch on the workloads of `emblem bench retrieve`, in the format of emblem's results: products of queries and items, and topk.

Two variants, the faster counts: all scores at once, and topk of blocks of items, then of their winners. With --exclude the scores
of N items per query become -inf, as after a search of a user who has seen them. Times are those of the device's clock (events of
a GPU); answers are compared with scores in fp64 first.

    python3 bench/peers/torch_retrieve.py --items 10000000 --dim 128 --dtype fp16 --users 1,64,1024 --json torch.json
"""

import argparse
import datetime
import json
import time

import torch
from machine import machine

TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
CHECKED, REPEATS = 4, 5


def draw(options, count, generator):
    vectors = torch.empty(count, options.dim, dtype=TYPES[options.dtype], device=options.device)
    for begin in range(0, count, 1 << 20):
        part = vectors[begin:begin + (1 << 20)]
        part.copy_(torch.randn(part.shape, generator=generator, device=options.device))
    return vectors


def scores_of(queries, items, excluded, first=0):
    """With `excluded`, [queries, N] places of items or None."""
    scores = queries @ items.T
    if excluded is not None:
        inside = (excluded >= first) & (excluded < first + len(items))
        # Those of other blocks go to a column of their own.
        scores = torch.cat([scores, scores.new_empty(len(scores), 1)], dim=1)
        scores.scatter_(1, torch.where(inside, excluded - first, len(items)), -torch.inf)
        scores = scores[:, :-1]
    return scores


def search_at_once(queries, items, excluded, k):
    return torch.topk(scores_of(queries, items, excluded), min(k, len(items)), dim=1)


def search_in_blocks(block):
    def search(queries, items, excluded, k):
        values, places = [], []
        for begin in range(0, len(items), block):
            part = items[begin:begin + block]
            found = torch.topk(scores_of(queries, part, excluded, begin), min(k, len(part)), dim=1)
            values.append(found.values)
            places.append(found.indices + begin)
        best = torch.topk(torch.cat(values, dim=1), min(k, len(items)), dim=1)
        return best.values, torch.cat(places, dim=1).gather(1, best.indices)
    return search


def check(search, queries, items, excluded, k):
    """Whether the items found have the best scores, in fp64, but for rounding."""
    rows = min(CHECKED, len(queries))
    places = search(queries, items, excluded, k)[1][:rows]
    exact = torch.cat([queries[:rows].double() @ part.double().T for part in items.split(1 << 20)], dim=1)
    if excluded is not None:
        exact.scatter_(1, excluded[:rows], -torch.inf)
    best, found = torch.topk(exact, places.shape[1], dim=1).values, exact.gather(1, places)
    wrong = (found.sort(dim=1, descending=True).values - best).abs().max()
    limit = {"fp32": 1e-4, "fp16": 0.2, "bf16": 1.0}[items_type(items)]  # products are rounded to their type
    assert wrong <= limit, f"scores found are {float(wrong)} below the best"
    assert all(len(set(row)) == len(row) for row in places.tolist())


def items_type(items):
    return next(name for name, kind in TYPES.items() if kind == items.dtype)


def seconds_of(call, options):
    """Median and least seconds of a call."""
    call()
    times, start = [], time.monotonic()
    while len(times) < REPEATS or time.monotonic() - start < options.seconds:
        if options.device == "cuda":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / 1000)
        else:
            begin = time.process_time()
            call()
            times.append(time.process_time() - begin)
    return sorted(times)[len(times) // 2], min(times)


def measure(options, items, users, excluded_count, generator):
    queries = draw(options, users, generator)
    excluded = None
    if excluded_count:
        excluded = torch.randint(0, len(items), (users, excluded_count), generator=generator, device=options.device)
    variants = {"blocks": search_in_blocks(options.block)}
    if users * len(items) * items.element_size() <= options.most_bytes:
        variants["at once"] = search_at_once
    found = {}
    for name, search in variants.items():
        check(search, queries, items, excluded, options.top_k)
        found[name] = seconds_of(lambda search=search: search(queries, items, excluded, options.top_k), options)
    name = min(found, key=found.get)
    return name, *found[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1000000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--users", default="1,16,64")
    parser.add_argument("--top-k", type=int, default=100)
    parser.add_argument("--dtype", choices=TYPES, default="fp16")
    parser.add_argument("--exclude", type=int, default=0, help="items that are not found, for each query")
    parser.add_argument("--block", type=int, default=1 << 20, help="items at a time")
    parser.add_argument("--most-bytes", type=int, default=32 << 30, help="of the scores of all items")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator(options.device).manual_seed(11)
    items = draw(options, options.items, generator)
    results = []
    for users in map(int, options.users.split(",")):
        variant, usual, least = measure(options, items, users, options.exclude, generator)
        metrics = {"queries_per_second": {"value": users / usual, "unit": "queries/s", "higher_is_better": True},
                   "search_seconds": {"value": usual, "unit": "s", "higher_is_better": False},
                   "best_search_seconds": {"value": least, "unit": "s", "higher_is_better": False}}
        if options.exclude:
            _, without, _ = measure(options, items, users, 0, generator)
            metrics["search_seconds_without_exclusion"] = {"value": without, "unit": "s", "higher_is_better": False}
            metrics["times_without_exclusion"] = {"value": usual / without, "unit": "x", "higher_is_better": False}
        results.append({
            "schema": 1, "benchmark": "retrieve", "program": f"PyTorch {torch.__version__} ({variant})",
            "name": f"retrieve-flat-n{options.items}-d{options.dim}-k{options.top_k}-{options.dtype}-u{users}"
                    + (f"-exclude{options.exclude}" if options.exclude else ""),
            "machine": machine(), "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "settings": {"items": options.items, "dim": options.dim, "users": users, "top_k": options.top_k, "dtype": options.dtype,
                         "exclude": options.exclude, "device": options.device, "variant": variant},
            "metrics": metrics})
        print(f"{results[-1]['name']} {results[-1]['program']}: {usual * 1e3:.2f} ms, best {least * 1e3:.2f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
