#!/usr/bin/env python3
"""PyTorch DLRM on the CPU: the counterpart of `emblem bench train --preset dlrm-kaggle`.

The model is facebookresearch/dlrm's for the Criteo Kaggle data: 13 dense features through a bottom
MLP (13-512-256-64-16, or 13-512-256-128 for dim 128; ReLU after every layer), 26 one-hot features
through one embedding table each, the dot products of all pairs of the 27 vectors (strict lower
triangle, 351), concatenated after the bottom output, a top MLP (351+dim)-512-256-1, binary
cross-entropy on the logit, plain SGD with rate 0.1 for all parameters.

Inputs are generated before timing starts and have the same values in both programs: every value is
a function of (seed, stream, sample), see `random_bits`. Keys follow a power law, by the inverse of
its continuous distribution function: with u uniform in [0, 1), N rows and exponent a,
    key = floor((1 + u * ((N + 1)^(1 - a) - 1))^(1 / (1 - a))) - 1
so that P(key) falls about as (key + 1)^-a. Streams: 0-25 the keys of feature f, 100-112 the dense
values (uniform in [0, 1)), 200 the label (1 where u < 0.25). Samples are numbered across batches.

The model is implemented in several ways that a PyTorch user could choose. All are timed and
printed; the fastest is written to --json.
"""

import argparse
import datetime
import json
import os
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from layers import mlp
from machine import machine

TABLE_ROWS = [203931, 18598, 14092, 7012, 18977, 4, 6385, 1245, 49, 186213, 71328, 67288, 11, 2168,
              7338, 61, 4, 932, 15, 204515, 141526, 199433, 60919, 9137, 71, 34]
DENSE = 13
RATE = 0.1
VARIANTS = ("plain", "bags", "fused", "compiled")


# ---- inputs -------------------------------------------------------------------------------------

def mix64(x):
    x = x ^ (x >> np.uint64(30))
    x = x * np.uint64(0xBF58476D1CE4E5B9)
    x = x ^ (x >> np.uint64(27))
    x = x * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def random_bits(seed, stream, index):
    """src/core/math/random.h, on arrays of indices."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        state = mix64(np.array([seed], np.uint64) + golden) ^ np.uint64(stream)
        return mix64(mix64(state) + index.astype(np.uint64) * golden)


def random_uniform(seed, stream, index):
    return (random_bits(seed, stream, index) >> np.uint64(40)).astype(np.float64) / 2.0**24


def power_law_keys(uniform, rows, alpha):
    top = (rows + 1.0) ** (1.0 - alpha)
    keys = np.floor((1.0 + uniform * (top - 1.0)) ** (1.0 / (1.0 - alpha))).astype(np.int64) - 1
    return np.clip(keys, 0, rows - 1)


def make_batches(count, batch, alpha, seed):
    """A list of (dense [batch, 13], keys [26, batch], labels [batch])."""
    batches = []
    for number in range(count):
        sample = np.arange(number * batch, (number + 1) * batch)
        dense = np.stack([random_uniform(seed, 100 + j, sample) for j in range(DENSE)], axis=1)
        keys = np.stack([power_law_keys(random_uniform(seed, f, sample), rows, alpha)
                         for f, rows in enumerate(TABLE_ROWS)])
        labels = random_uniform(seed, 200, sample) < 0.25
        batches.append((torch.from_numpy(dense.astype(np.float32)), torch.from_numpy(keys),
                        torch.from_numpy(labels.astype(np.float32))))
    return batches


# ---- model --------------------------------------------------------------------------------------

class PairProducts(torch.autograd.Function):
    """Dot products of all pairs of [batch, n, dim] vectors, the strict lower triangle by rows.

    Autograd derives three products from bmm(v, v.transpose(1, 2)), one of which is 15 to 150 times
    slower on Arm. The gradient here is one symmetric product.
    """

    @staticmethod
    def forward(ctx, vectors, pairs, mirrored):
        ctx.save_for_backward(vectors, pairs, mirrored)
        products = torch.bmm(vectors, vectors.transpose(1, 2).contiguous())
        return products.flatten(1).index_select(1, pairs)

    @staticmethod
    def backward(ctx, gradient):
        vectors, pairs, mirrored = ctx.saved_tensors
        batch, n, _ = vectors.shape
        gradient = gradient.to(vectors.dtype)  # under autocast they may differ
        symmetric = gradient.new_zeros(batch, n * n)
        symmetric.index_copy_(1, pairs, gradient)
        symmetric.index_copy_(1, mirrored, gradient)
        return torch.bmm(symmetric.view(batch, n, n), vectors), None, None


def plain_pair_products(vectors, pairs, mirrored):
    """The same, as facebookresearch/dlrm writes it: autograd derives the backward pass."""
    return torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1).index_select(1, pairs)


class DensePart(nn.Module):
    """Everything above the tables."""

    def __init__(self, dim, pair_products):
        super().__init__()
        self.pair_products = pair_products
        bottom = [DENSE, 512, 256, 64, 16] if dim == 16 else [DENSE, 512, 256, dim]
        vectors = len(TABLE_ROWS) + 1
        self.bottom = mlp(bottom, relu_after_last=True)
        self.top = mlp([dim + vectors * (vectors - 1) // 2, 512, 256, 1], relu_after_last=False)
        lower = torch.tril_indices(vectors, vectors, offset=-1)
        self.register_buffer("pairs", lower[0] * vectors + lower[1])
        self.register_buffer("mirrored", lower[1] * vectors + lower[0])

    def forward(self, dense, rows):  # rows [batch, 26, dim]
        bottom = self.bottom(dense)
        vectors = torch.cat([bottom.unsqueeze(1), rows], dim=1)
        products = self.pair_products(vectors, self.pairs, self.mirrored)
        return self.top(torch.cat([bottom, products], dim=1)).squeeze(1)


class Bags(nn.Module):
    """One EmbeddingBag per table."""

    def __init__(self, dim):
        super().__init__()
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(rows, dim, mode="sum", sparse=True) for rows in TABLE_ROWS)
        for table in self.tables:
            nn.init.uniform_(table.weight, -table.num_embeddings**-0.5, table.num_embeddings**-0.5)

    @staticmethod
    def prepare(keys):
        return [k.contiguous() for k in keys], torch.arange(keys.shape[1])

    def forward(self, keys):
        columns, offsets = keys
        return torch.stack([t(k, offsets) for t, k in zip(self.tables, columns)], dim=1)


class Fused(nn.Module):
    """One table that concatenates all 26."""

    def __init__(self, dim):
        super().__init__()
        self.table = nn.Embedding(sum(TABLE_ROWS), dim, sparse=True)
        start = 0
        for rows in TABLE_ROWS:
            nn.init.uniform_(self.table.weight.data[start:start + rows], -rows**-0.5, rows**-0.5)
            start += rows

    @staticmethod
    def prepare(keys):
        starts = torch.tensor(np.concatenate([[0], np.cumsum(TABLE_ROWS)[:-1]]))
        return (keys + starts[:, None]).t().contiguous()

    def forward(self, keys):
        return F.embedding(keys, self.table.weight, sparse=True)


def fill_simply(module, seed):
    """Parameter number p, element i: (2 u - 1) / sqrt(last size), u from stream 1000 + p; biases 0."""
    for number, parameter in enumerate(module.parameters()):
        u = random_uniform(seed, 1000 + number, np.arange(parameter.numel()))
        values = (2.0 * u - 1.0) / np.sqrt(parameter.shape[-1])
        if parameter.dim() == 1:
            values = np.zeros_like(values)
        parameter.data.copy_(torch.from_numpy(values.astype(np.float32)).view_as(parameter))


# ---- measurement --------------------------------------------------------------------------------

class Program:
    """One variant, ready to step."""

    def __init__(self, variant, dim, batches, precision="fp32"):
        torch.manual_seed(0)
        self.narrow = precision == "bf16"
        self.rows = (Bags if variant in ("plain", "bags") else Fused)(dim)
        self.dense = DensePart(dim, plain_pair_products if variant == "plain" else PairProducts.apply)
        self.forward = torch.compile(self.loss) if variant == "compiled" else self.loss
        self.sparse_step = torch.optim.SGD(self.rows.parameters(), lr=RATE)
        self.dense_step = torch.optim.SGD(self.dense.parameters(), lr=RATE, fused=True)
        self.batches = [(dense, self.rows.prepare(keys), labels) for dense, keys, labels in batches]

    def loss(self, dense, rows, labels):
        return F.binary_cross_entropy_with_logits(self.dense(dense, rows), labels)

    def step(self, number, seconds=None):
        dense, keys, labels = self.batches[number % len(self.batches)]
        t0 = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.narrow):
            loss = self.forward(dense, self.rows(keys), labels)
        t1 = time.perf_counter()
        self.sparse_step.zero_grad(set_to_none=True)
        self.dense_step.zero_grad(set_to_none=True)
        loss.backward()
        t2 = time.perf_counter()
        self.sparse_step.step()
        self.dense_step.step()
        t3 = time.perf_counter()
        if seconds is not None:
            seconds.append((t1 - t0, t2 - t1, t3 - t2))
        return loss.detach()


def measure(program, batch, steps, at_least_s, warmup_steps):
    for number in range(warmup_steps):
        program.step(number)
    seconds, losses = [], []
    start = time.perf_counter()
    # Minimums of both steps and time, so that small batches are timed long enough.
    while len(seconds) < steps or time.perf_counter() - start < at_least_s:
        losses.append(program.step(warmup_steps + len(seconds), seconds))
    total = time.perf_counter() - start
    per_step = sorted(sum(s) for s in seconds)
    return {
        "samples_per_second": batch * len(seconds) / total,
        "best_samples_per_second": batch / per_step[0],
        "steps": len(seconds),
        # The inter-quartile range of a step's time relative to its median.
        "spread": (per_step[3 * len(per_step) // 4] - per_step[len(per_step) // 4])
                  / statistics.median(per_step),
        "stages": {name: statistics.fmean(s[i] for s in seconds)
                   for i, name in enumerate(("forward", "backward", "optimizer"))},
        "losses": [float(value) for value in losses],
    }


def result_json(arguments, measured, variants):
    version = torch.__version__.split("+")[0]
    best = measured
    return {
        "schema": 1,
        "benchmark": "train",
        "name": f"dlrm-kaggle-d{arguments.dim}-b{arguments.batch}" + ("-bf16" if arguments.precision == "bf16" else ""),
        "program": f"pytorch {version}",
        "machine": machine(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "settings": {
            "batch": arguments.batch, "dim": arguments.dim, "threads": arguments.threads,
            "alpha": arguments.alpha, "steps": best["steps"], "batches": arguments.batches,
            "variant": best["variant"], "optimizer": "sgd", "learning_rate": RATE,
            "references": ["dlrm-throughput"],
            **{f"samples_per_second_{name}": round(value["samples_per_second"], 1)
               for name, value in variants.items()},
        },
        "metrics": {
            "samples_per_second": {"value": best["samples_per_second"], "unit": "samples/s",
                                   "higher_is_better": True,
                                   "spread": best["spread"] * best["samples_per_second"]},
            "step_seconds": {"value": arguments.batch / best["samples_per_second"], "unit": "s",
                             "higher_is_better": False},
        },
        "stages": best["stages"],
    }


def check(arguments):
    """Losses of the first steps from fixed weights, to compare with other implementations."""
    batches = make_batches(5, arguments.batch, arguments.alpha, arguments.seed)
    program = Program("fused", arguments.dim, batches)
    fill_simply(program.dense, arguments.seed)
    fill_simply(program.rows, arguments.seed + 1)
    for number in range(5):
        print(f"step {number} loss {float(program.step(number)):.7f}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--dim", type=int, choices=(16, 128), default=16)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="bf16: under autocast")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", type=int, default=30, help="timed steps, at least")
    parser.add_argument("--seconds", type=float, default=10.0, help="timed seconds, at least")
    parser.add_argument("--warmup", type=int, default=5, help="steps before timing starts")
    parser.add_argument("--batches", type=int, default=32, help="distinct batches, used round-robin")
    parser.add_argument("--alpha", type=float, default=1.05, help="exponent of the keys' power law")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--variants", default=",".join(VARIANTS), help="variants to time, of %(default)s")
    parser.add_argument("--json", help="write the fastest variant's result here")
    parser.add_argument("--check", action="store_true",
                        help="print the losses of 5 steps from fixed weights and exit")
    arguments = parser.parse_args()
    unknown = set(arguments.variants.split(",")) - set(VARIANTS)
    if unknown:
        parser.error(f"unknown variants {sorted(unknown)}; known are {', '.join(VARIANTS)}")
    return arguments


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.set_flush_denormal(True)
    if arguments.check:
        return check(arguments)
    batches = make_batches(arguments.batches, arguments.batch, arguments.alpha, arguments.seed)
    variants = {}
    for name in arguments.variants.split(","):
        try:
            start = time.perf_counter()
            program = Program(name, arguments.dim, batches, arguments.precision)
            program.step(0)
            ready_s = time.perf_counter() - start
            variants[name] = measure(program, arguments.batch, arguments.steps, arguments.seconds,
                                     arguments.warmup)
        except Exception as error:  # a variant that does not run here is reported, not fatal
            if name != "compiled":
                raise
            print(f"{name:9} does not run here: {str(error).splitlines()[0]}", flush=True)
            continue
        m = variants[name]
        m["variant"] = name
        stages = ", ".join(f"{stage} {1e3 * s:.2f} ms" for stage, s in m["stages"].items())
        print(f"{name:9} {m['samples_per_second']:12,.0f} samples/s  (best step "
              f"{m['best_samples_per_second']:,.0f}; {m['steps']} steps; ready in {ready_s:.1f} s; "
              f"{stages}; last loss {m['losses'][-1]:.4f})", flush=True)
    best = max(variants.values(), key=lambda m: m["samples_per_second"])
    print(f"fastest: {best['variant']}, {best['samples_per_second']:,.0f} samples/s with "
          f"{arguments.threads} threads, batch {arguments.batch}, dim {arguments.dim}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result_json(arguments, best, variants), file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
