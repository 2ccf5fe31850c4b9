#!/usr/bin/env python3
"""PyTorch DLRM and other models on one GPU: the counterpart of `emblem bench train --device cuda` and, with --infer, of
`emblem bench infer`.

Presets: sok-dlrm, dle-dlrm, hps-dlrm (13 dense and 26 one-hot features, bottom 512-256-128, dot products of 27 vectors, top
1024-1024-512-256-1) and mlperf-dcnv2 (214 keys per sample, pooled; three cross layers of rank 512 over the 27 vectors instead
of the dot products); and over the tables of dle-dlrm, with rows of 16: criteo-dnn, criteo-wide-and-deep, criteo-deepfm,
criteo-dcn and criteo-dcnv2, whose deep part is 1024-1024-1024. Tables and keys are those of Emblem's presets. All tables are
concatenated in one tensor of fp32 rows. Its update is explicit: index_add_ adds the gradients of a batch to the rows, which is
plain SGD without a gradient of the size of the table. The dense part computes in fp32 (TF32 off), bf16 or fp16 (autocast).

Keys follow the same power law as Emblem's, by the inverse of its distribution function, from PyTorch's generator on the GPU:
the same distribution, not the same values. Batches are generated before timing starts and used round-robin.

  eager     as written
  compiled  the dense part through torch.compile
  graph     the whole compiled step captured in a CUDA graph, batches copied into its inputs

All are timed and printed; the fastest is written to --json under the name of Emblem's result.
"""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from criteo import FL15_ROWS
from layers import mlp
from machine import machine

SOK_ROWS = [39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938, 155, 4, 976,
            14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36]
MLPERF_ROWS = [40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10, 2209, 11938, 155, 4, 976,
               14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36]
MLPERF_HOTNESS = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]
PRESETS = {  # rows, keys per sample of each feature
    "sok-dlrm": (SOK_ROWS, [1] * 26),
    "dle-dlrm": (FL15_ROWS, [1] * 26),
    "hps-dlrm": (FL15_ROWS, [1] * 26),
    "mlperf-dcnv2": (MLPERF_ROWS, MLPERF_HOTNESS),
    **{f"criteo-{model}": (FL15_ROWS, [1] * 26) for model in ("dnn", "wide-and-deep", "deepfm", "dcn", "dcnv2")},
}
DENSE = 13
DIM = 128
CRITEO_DIM, WIDE_DIM, CRITEO_DEEP, CRITEO_RANK = 16, 4, [1024, 1024, 1024], 64
BOTTOM = [DENSE, 512, 256, DIM]
TOP = [1024, 1024, 512, 256, 1]
CROSS_LAYERS, CROSS_RANK = 3, 512
PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
VARIANTS = ("eager", "compiled", "graph")


# ---- inputs -------------------------------------------------------------------------------------

def make_batches(arguments, rows, hotness, device):
    """A list of (dense [batch, 13], keys [batch, sum of hotness] numbered across all tables, labels [batch])."""
    generator = torch.Generator(device)
    generator.manual_seed(arguments.seed)
    batches = []
    for _ in range(arguments.batches):
        columns, start = [], 0
        for count, hot in zip(rows, hotness):
            u = torch.rand(arguments.batch, hot, dtype=torch.float64, generator=generator, device=device)
            exponent = 1.0 - arguments.alpha
            top = (count + 1.0) ** exponent
            keys = torch.floor((1.0 + u * (top - 1.0)) ** (1.0 / exponent)).long() - 1
            columns.append(keys.clamp_(0, count - 1) + start)
            start += count
        dense = torch.rand(arguments.batch, DENSE, generator=generator, device=device)
        labels = (torch.rand(arguments.batch, generator=generator, device=device) < 0.25).float()
        batches.append((dense, torch.cat(columns, dim=1).contiguous(), labels))
    return batches


# ---- model --------------------------------------------------------------------------------------

class DotPart(nn.Module):
    """Everything above the tables: vectors [batch, 26, dim] to logits."""

    def __init__(self):
        super().__init__()
        vectors = 27
        self.bottom = mlp(BOTTOM, relu_after_last=True)
        self.top = mlp([DIM + vectors * (vectors - 1) // 2, *TOP], relu_after_last=False)
        lower = torch.tril_indices(vectors, vectors, offset=-1)
        self.register_buffer("pairs", lower[0] * vectors + lower[1])

    def forward(self, dense, vectors):
        bottom = self.bottom(dense)
        all_vectors = torch.cat([bottom.unsqueeze(1), vectors.to(bottom.dtype)], dim=1)
        products = torch.bmm(all_vectors, all_vectors.transpose(1, 2))
        pairs = products.flatten(1).index_select(1, self.pairs)
        return self.top(torch.cat([bottom, pairs], dim=1)).squeeze(1)


class CrossPart(nn.Module):
    """The same with the low-rank cross layers of DCNv2."""

    def __init__(self):
        super().__init__()
        width = 27 * DIM
        self.bottom = mlp(BOTTOM, relu_after_last=True)
        self.down = nn.ModuleList(nn.Linear(width, CROSS_RANK, bias=False) for _ in range(CROSS_LAYERS))
        self.up = nn.ModuleList(nn.Linear(CROSS_RANK, width) for _ in range(CROSS_LAYERS))
        self.top = mlp([width, *TOP], relu_after_last=False)

    def forward(self, dense, vectors):
        bottom = self.bottom(dense)
        first = torch.cat([bottom, vectors.flatten(1).to(bottom.dtype)], dim=1)
        x = first
        for down, up in zip(self.down, self.up):
            x = first * up(down(x)) + x
        return self.top(x).squeeze(1)


class CriteoPart(nn.Module):
    """The other models, over [dense, vectors]. A wide part is in the last columns of a row."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        width = DENSE + 26 * CRITEO_DIM
        self.deep = mlp([width, *CRITEO_DEEP], relu_after_last=True)
        joined = CRITEO_DEEP[-1] + (width if "dcn" in model else 0)
        self.output = nn.Linear(joined, 1)
        if has_wide(model):
            self.wide_dense = nn.Linear(DENSE, 1, bias=False)
        if model == "dcn":
            self.weights = nn.ParameterList(torch.randn(width) / width ** 0.5 for _ in range(CROSS_LAYERS))
            self.biases = nn.ParameterList(torch.zeros(width) for _ in range(CROSS_LAYERS))
        if model == "dcnv2":
            self.down = nn.ModuleList(nn.Linear(width, CRITEO_RANK, bias=False) for _ in range(CROSS_LAYERS))
            self.up = nn.ModuleList(nn.Linear(CRITEO_RANK, width) for _ in range(CROSS_LAYERS))

    def cross(self, first):
        x = first
        if self.model == "dcn":
            for weight, bias in zip(self.weights, self.biases):
                x = first * (x @ weight.to(x.dtype)).unsqueeze(1) + bias.to(x.dtype) + x
        else:
            for down, up in zip(self.down, self.up):
                x = first * up(down(x)) + x
        return x

    def forward(self, dense, rows):
        kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else rows.dtype
        vectors = rows[:, :, :CRITEO_DIM].to(kind)
        first = torch.cat([dense.to(kind), vectors.flatten(1)], dim=1)
        joined = self.deep(first)
        if "dcn" in self.model:
            joined = torch.cat([self.cross(first), joined], dim=1)
        logits = self.output(joined).squeeze(1)
        if self.model == "deepfm":
            sums = vectors.float().sum(1)
            logits = logits + 0.5 * (sums.square() - vectors.float().square().sum(1)).sum(1)
        if has_wide(self.model):
            logits = logits + rows[:, :, CRITEO_DIM:].sum((1, 2)) + self.wide_dense(dense).squeeze(1)
        return logits


def has_wide(model):
    return model in ("wide-and-deep", "deepfm")


def row_floats(preset):
    if not preset.startswith("criteo-"):
        return DIM
    return CRITEO_DIM + (WIDE_DIM if has_wide(preset.removeprefix("criteo-")) else 0)


def part_of(preset):
    if preset.startswith("criteo-"):
        return CriteoPart(preset.removeprefix("criteo-"))
    return CrossPart() if "dcn" in preset else DotPart()


class Program:
    """A preset in one variant. The table is shared between variants."""

    def __init__(self, arguments, variant, table, hotness, device):
        torch.manual_seed(0)
        self.variant = variant
        self.rate = arguments.rate
        self.precision = PRECISIONS[arguments.precision]
        self.scale = 1024.0 if arguments.precision == "fp16" else 1.0  # SOK's
        self.table = table
        self.part = part_of(arguments.preset).to(device)
        self.loss = self.plain_loss if variant == "eager" else torch.compile(self.plain_loss)
        self.answer = self.plain_answer if variant == "eager" else torch.compile(self.plain_answer)
        self.parameters = list(self.part.parameters())
        self.multi_hot = max(hotness) > 1
        self.device = device
        self.graph = None
        self.bag_starts = (torch.tensor(hotness).cumsum(0) - torch.tensor(hotness)).to(device)  # within the keys of a sample
        # The feature of every key of a sample: gradients of a bag go to each of its rows.
        self.feature = torch.repeat_interleave(torch.arange(26), torch.tensor(hotness)).to(device)

    def autocast(self):
        return torch.autocast(self.device, dtype=self.precision or torch.bfloat16, enabled=self.precision is not None)

    def vectors(self, keys):
        if not self.multi_hot:
            return F.embedding(keys, self.table)
        samples = torch.arange(keys.shape[0], device=self.device) * keys.shape[1]
        offsets = (samples[:, None] + self.bag_starts).flatten()
        return F.embedding_bag(keys.flatten(), self.table, offsets, mode="sum").view(-1, 26, DIM)

    def plain_loss(self, dense, vectors, labels):
        with self.autocast():
            logits = self.part(dense, vectors)
        return F.binary_cross_entropy_with_logits(logits.float(), labels) * self.scale

    @torch.inference_mode()
    def plain_answer(self, dense, keys):
        with self.autocast():
            return torch.sigmoid(self.part(dense, self.vectors(keys)).float())

    def step(self, dense, keys, labels):
        with torch.no_grad():
            vectors = self.vectors(keys)
        vectors.requires_grad_()
        loss = self.loss(dense, vectors, labels)
        gradients = torch.autograd.grad(loss, [vectors, *self.parameters])
        with torch.no_grad():
            scale = -self.rate / self.scale
            of_rows = gradients[0] if not self.multi_hot else gradients[0].index_select(1, self.feature)
            self.table.index_add_(0, keys.flatten(), of_rows.reshape(-1, self.table.shape[1]), alpha=scale)
            torch._foreach_add_(self.parameters, gradients[1:], alpha=scale)
        return loss.detach()

    def capture(self, body, example):
        """Captures body(*batch) in a CUDA graph; returns a function that replays it."""
        inputs = [tensor.clone() for tensor in example]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                body(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = body(*inputs)

        def replay(*batch):
            for to, value in zip(inputs, batch):
                to.copy_(value, non_blocking=True)
            graph.replay()
            return out
        return replay


# ---- measurement --------------------------------------------------------------------------------

def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def measure_training(program, batches, arguments):
    run = program.step
    if program.variant == "graph":
        run = program.capture(program.step, batches[0])
    for number in range(arguments.warmup):
        loss = run(*batches[number % len(batches)])
    first_loss = float(loss) / program.scale
    wait(program.device)
    steps, start = 0, time.perf_counter()
    while steps < arguments.steps or time.perf_counter() - start < arguments.seconds:
        loss = run(*batches[steps % len(batches)])
        steps += 1
        if steps % 10 == 0:
            wait(program.device)  # otherwise steps would only be enqueued, not finished
    wait(program.device)
    total = time.perf_counter() - start
    last_loss = float(loss) / program.scale
    if not last_loss == last_loss:
        raise RuntimeError("the loss is not a number")
    return {"samples_per_second": arguments.batch * steps / total, "step_seconds": total / steps, "steps": steps,
            "first_loss": first_loss, "last_loss": last_loss}


def measure_inference(program, batches, arguments):
    inputs = [(dense, keys) for dense, keys, _ in batches]
    run = program.answer
    if program.variant == "graph":
        run = program.capture(program.answer, inputs[0])
    for number in range(20):
        run(*inputs[number % len(inputs)])
    wait(program.device)
    taken, start = [], time.perf_counter()
    while len(taken) < 20 or time.perf_counter() - start < arguments.seconds:
        before = time.perf_counter()
        run(*inputs[len(taken) % len(inputs)])
        wait(program.device)
        taken.append(time.perf_counter() - before)
    return {"samples_per_second": arguments.batch * len(taken) / sum(taken), "step_seconds": statistics.median(taken),
            "steps": len(taken), "p99": sorted(taken)[int(0.99 * len(taken))]}


def result_json(arguments, best, found, device):
    name = arguments.preset + (f"-tables/{arguments.divide_tables}" if arguments.divide_tables > 1 else "")
    name += f"-d{DIM}-b{arguments.batch}-stream" if arguments.infer else f"-b{arguments.batch}"
    name += "" if arguments.precision == "fp32" else f"-{arguments.precision}"
    if arguments.preset == "mlperf-dcnv2" and not arguments.infer:
        name += "-sgd"  # unlike Emblem's preset: compare with --optimizer sgd
    here = machine()
    memory = 0
    if device == "cuda":
        free, total = torch.cuda.mem_get_info()
        here["gpu"] = torch.cuda.get_device_name()
        memory = total - free
    rate = {"value": best["samples_per_second"], "unit": "samples/s", "higher_is_better": True}
    seconds = {"value": best["step_seconds"], "unit": "s", "higher_is_better": False}
    metrics = ({"latency_p50": seconds, "latency_p99": {**seconds, "value": best["p99"]}, "samples_per_second": rate}
               if arguments.infer else {"samples_per_second": rate, "step_seconds": seconds})
    metrics["gpu_memory"] = {"value": memory, "unit": "B", "higher_is_better": False}
    return {
        "schema": 1,
        "benchmark": "infer" if arguments.infer else "train",
        "name": name,
        "program": f"pytorch {torch.__version__.split('+')[0]}",
        "machine": here,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "settings": {
            "batch": arguments.batch, "dim": row_floats(arguments.preset), "alpha": arguments.alpha, "precision": arguments.precision,
            "steps": best["steps"], "batches": arguments.batches, "optimizer": "sgd", "variant": best["variant"],
            **({} if arguments.preset.startswith("criteo-") else
               {"references": ["dcnv2-throughput" if "dcn" in arguments.preset else "dlrm-throughput"]}),
            **{f"samples_per_second_{name}": round(value["samples_per_second"], 1) for name, value in found.items()},
        },
        "metrics": metrics,
    }


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--preset", choices=PRESETS, default="sok-dlrm")
    parser.add_argument("--infer", action="store_true", help="time inference instead of training steps")
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--precision", choices=PRECISIONS, default="bf16")
    parser.add_argument("--divide-tables", type=int, default=1, help="use tables with 1/N of the rows")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--steps", type=int, default=50, help="timed steps, at least")
    parser.add_argument("--seconds", type=float, default=5.0, help="timed seconds, at least")
    parser.add_argument("--warmup", type=int, default=10, help="steps before timing starts")
    parser.add_argument("--batches", type=int, default=16, help="distinct batches, used round-robin")
    parser.add_argument("--alpha", type=float, default=1.05, help="exponent of the keys' power law")
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--variants", default=",".join(VARIANTS), help="variants to time, of %(default)s")
    parser.add_argument("--json", help="write the fastest variant's result here")
    arguments = parser.parse_args()
    unknown = set(arguments.variants.split(",")) - set(VARIANTS)
    if unknown:
        parser.error(f"unknown variants {sorted(unknown)}; known are {', '.join(VARIANTS)}")
    if arguments.infer and arguments.preset.startswith("criteo-"):
        parser.error("inference is timed with the DLRM presets only")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("no GPU is visible to PyTorch; --device cpu runs a small check without one")
    return arguments


def main():
    arguments = parse_arguments()
    torch.backends.cuda.matmul.allow_tf32 = False
    device = arguments.device
    rows, hotness = PRESETS[arguments.preset]
    rows = [max(4, count // arguments.divide_tables) for count in rows]
    table = torch.empty(sum(rows), row_floats(arguments.preset), device=device).uniform_(-0.01, 0.01)
    batches = make_batches(arguments, rows, hotness, device)
    found = {}
    for variant in arguments.variants.split(","):
        if variant == "graph" and device == "cpu":
            continue
        try:
            program = Program(arguments, variant, table, hotness, device)
            measure = measure_inference if arguments.infer else measure_training
            found[variant] = {**measure(program, batches, arguments), "variant": variant}
        except Exception as error:  # a variant that does not run here is reported, not fatal
            if variant == "eager":
                raise
            print(f"{variant:9} does not run here: {str(error).splitlines()[0]}", flush=True)
            continue
        print(f"{variant:9} {found[variant]['samples_per_second']:14,.0f} samples/s, "
              f"{1e3 * found[variant]['step_seconds']:.3f} ms per batch of {arguments.batch}, {found[variant]['steps']} batches, "
              + (f"loss {found[variant]['first_loss']:.4f} to {found[variant]['last_loss']:.4f}" if not arguments.infer
                 else f"p99 {1e3 * found[variant]['p99']:.3f} ms"), flush=True)
    best = max(found.values(), key=lambda one: one["samples_per_second"])
    print(f"fastest: {best['variant']}, {best['samples_per_second']:,.0f} samples/s")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result_json(arguments, best, found, device), file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
