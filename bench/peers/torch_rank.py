#!/usr/bin/env python3
"""PyTorch on the ranking models of rank_configs.py: the counterpart of `emblem bench train --config` (rank_suite.py runs both).

Models are those of tests/peers, which write the values that Emblem's are compared with. Tables are fp32 and on the device; the
dense part computes in fp32 or, by autocast, in bf16. AdaGrad of rows is exact and needs no sorting: index_add_ sums gradients
into a buffer of the size of the table, and for every key the new accumulator and row are computed from that sum, so that
duplicates of a key write the same values. Dense weights are updated by torch.optim.Adam, fused.

  eager     as written
  compiled  forward and backward by torch.compile
  graph     the whole compiled step in a CUDA graph, batches copied into its inputs

Histories are padded to their longest with a mask, or jagged (--histories); both are tried by default. The fastest is printed, one line of
JSON a model: {"model", "ms", "rows_per_s", "variant", "all"}.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "peers"))

import encoders  # noqa: E402
import jagged  # noqa: E402
from inputs import model_of  # noqa: E402
from losses import loss_terms  # noqa: E402
from models import BUILDERS, multi_tower  # noqa: E402
from pbtxt import parse  # noqa: E402
from rank_configs import pipelines  # noqa: E402
from rank_inputs import DeviceInputs, Uses, make_batches, make_jagged  # noqa: E402
from store import Store  # noqa: E402

PADDED = (encoders.din_encoder, encoders.din)


def use_histories(kind):
    encoder, din = (jagged.din_encoder, jagged.din) if kind == "jagged" else PADDED
    encoders.ENCODERS["din_encoder"], multi_tower.din = encoder, din


class Table:
    """Rows of all tables of one lookup, the last row for padding."""

    def __init__(self, rows, dim, device):
        self.rows = torch.empty(rows + 1, dim, device=device).uniform_(-0.01, 0.01)
        self.rows[rows] = 0
        self.squares = torch.zeros_like(self.rows)
        self.sums = torch.zeros_like(self.rows)  # of gradients; 0 between steps

    @torch.no_grad()
    def update(self, keys, gradients, rate):
        keys = keys.flatten()
        self.sums.index_add_(0, keys, gradients.reshape(keys.shape[0], -1).float())
        gradient = self.sums[keys]
        squares = torch.addcmul(self.squares[keys], gradient, gradient)
        rows = torch.addcdiv(self.rows[keys], gradient, squares.sqrt().add_(1e-8), value=-rate)
        self.squares[keys] = squares
        self.rows[keys] = rows
        self.sums.index_fill_(0, keys, 0)


class Step:
    """A model with its optimizers. `histories`: padded or jagged."""

    def __init__(self, text, arguments, histories):
        use_histories(histories)
        self.pipeline, self.device = parse(text), arguments.device
        self.name, self.config = model_of(self.pipeline.get("model_config"))
        self.uses = Uses(self.pipeline, self.config.get("wide_embedding_dim", 16 if self.name == "xdeepfm" else 4))
        self.store = Store(dtype=torch.float32, device=self.device)
        self.precision = arguments.precision
        self.batches = make_batches(self.pipeline, self.uses, arguments.batches, arguments.seed, self.device)
        if histories == "jagged":
            make_jagged(self.batches)
        self.tables = {kind: Table(self.uses.first_rows(names)[1], self.dim_of(kind, names), self.device)
                       for kind in ("flat", "wide", "query", "series") if (names := getattr(self.uses, kind))}
        self.compiled = self.loss
        self.run(self.loss, self.batches[0], update=False)  # creates parameters
        self.parameters = list(self.store.parameters.values())
        cuda = self.device == "cuda"
        self.optimizer = torch.optim.Adam(self.parameters, 0.001, fused=True, capturable=cuda)

    def dim_of(self, kind, names):
        return self.uses.wide_dim if kind == "wide" else self.uses.features[names[0]].dim

    def loss(self, batch, vectors):
        kind = "cuda" if self.device == "cuda" else "cpu"
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=self.precision == "bf16"):
            inputs = DeviceInputs(self.pipeline, self.uses, self.store, batch, vectors)
            heads = BUILDERS[self.name](self.store, inputs, self.config)
            for head in heads:
                head.logits = head.logits.float()
            return sum(value for head in heads for _, value in loss_terms(head, inputs)) + sum(
                value for _, value in inputs.extra_losses)

    def run(self, loss_of, batch, update=True):
        with torch.no_grad():
            vectors = {kind: torch.nn.functional.embedding(batch[kind], table.rows) for kind, table in self.tables.items()}
        for value in vectors.values():
            value.requires_grad_()
        loss = loss_of(batch, vectors)
        if not update:
            return loss
        inputs = list(vectors.values())
        gradients = torch.autograd.grad(loss, inputs + self.parameters)
        for kind, gradient in zip(vectors, gradients):
            self.tables[kind].update(batch[kind], gradient, 0.001)
        for parameter, gradient in zip(self.parameters, gradients[len(inputs):]):
            parameter.grad = gradient
        self.optimizer.step()
        return loss.detach()

    def variants(self, chosen):
        """(name, function of a batch)"""
        if "eager" in chosen:
            yield "eager", lambda batch: self.run(self.loss, batch)
        if not {"compiled", "graph"} & set(chosen):
            return
        torch._dynamo.reset()
        compiled = torch.compile(self.loss, dynamic=False)
        yield "compiled", lambda batch: self.run(compiled, batch)
        if self.device == "cuda" and "graph" in chosen:
            yield "graph", self.captured(compiled)

    def captured(self, loss_of):
        fixed = {name: tensor.clone() for name, tensor in self.batches[0].items()}
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.run(loss_of, fixed)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.run(loss_of, fixed)

        def replay(batch):
            for name, tensor in batch.items():
                fixed[name].copy_(tensor, non_blocking=True)
            graph.replay()
            return out
        return replay


def timed(run, batches, arguments):
    """Median milliseconds of a step."""
    loss = None
    for number in range(arguments.warmup):
        loss = run(batches[number % len(batches)])
    assert torch.isfinite(loss), "the loss is not finite"
    samples = []
    for _ in range(arguments.repeats):
        if arguments.device == "cuda":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
        else:
            start = time.perf_counter()
        for number in range(arguments.steps):
            run(batches[number % len(batches)])
        if arguments.device == "cuda":
            end.record()
            torch.cuda.synchronize()
            samples.append(begin.elapsed_time(end) / arguments.steps)
        else:
            samples.append((time.perf_counter() - start) * 1000 / arguments.steps)
    return statistics.median(samples)


def measure(name, text, arguments):
    found = {}
    kinds = arguments.histories.split(",") if "sequence_delim" in text else ["padded"]
    for kind in kinds:
        step = Step(text, arguments, kind)
        for variant, run in step.variants(arguments.variants.split(",")):
            label = variant if len(kinds) == 1 else f"{kind} {variant}"
            found[label] = timed(run, step.batches, arguments)
        del step
        if arguments.device == "cuda":
            torch.cuda.empty_cache()
    best = min(found, key=found.get)
    return {"model": name, "ms": round(found[best], 4), "rows_per_s": round(arguments.batch / found[best] * 1000), "variant": best,
            "all": {label: round(ms, 4) for label, ms in found.items()}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", help="names of rank_configs.py; default: all")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--precision", choices=["bf16", "fp32"])
    parser.add_argument("--divide-tables", type=int, default=1)
    parser.add_argument("--variants", default="eager,compiled,graph")
    parser.add_argument("--histories", default="padded,jagged")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="of a CPU")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.precision = arguments.precision or ("bf16" if arguments.device == "cuda" else "fp32")
    if arguments.device == "cpu":
        torch.set_num_threads(arguments.threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    texts = pipelines(arguments.batch, arguments.divide_tables)
    for name in arguments.models or texts:
        print(json.dumps(measure(name, texts[name], arguments)), flush=True)


if __name__ == "__main__":
    main()
