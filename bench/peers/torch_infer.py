#!/usr/bin/env python3
"""Inference by PyTorch and ONNX Runtime: the counterpart of `emblem bench infer`.

The model and its inputs are those of torch_dlrm_cpu.py (preset dlrm-kaggle), DeepFM or DCNv2 over the
same inputs, or, with other sizes, HPS's DLRM benchmark (preset hps-dlrm). All tables are concatenated
in one, which is PyTorch's fastest form. The time is that from the dense values and keys of a batch to the probabilities:

  eager     as written, in inference mode
  compiled  torch.compile
  graph     on a GPU: captured in a CUDA graph
  onnx      on the CPU: exported, and run by ONNX Runtime

With --precision bf16 on the CPU they run under autocast, and with int8 by ONNX Runtime alone, which
quantizes weights and inputs of layers.

Each is timed with one batch, repeated, and with a stream of different batches. The fastest is written
to --json under the name of emblem's result.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import numpy as np
import torch
from torch import nn

import torch_dlrm_cpu as dlrm
from criteo import FL15_ROWS


class Inference(nn.Module):
    """Dense values [batch, 13] and keys [batch, 26], numbered across all tables, to probabilities."""

    def __init__(self, rows, dim, bottom, top):
        super().__init__()
        self.table = nn.Embedding(sum(rows), dim)
        nn.init.uniform_(self.table.weight, -0.05, 0.05)
        vectors = len(rows) + 1
        self.bottom = dlrm.mlp([dlrm.DENSE, *bottom], relu_after_last=True)
        self.top = dlrm.mlp([dim + vectors * (vectors - 1) // 2, *top, 1], relu_after_last=False)
        lower = torch.tril_indices(vectors, vectors, offset=-1)
        self.register_buffer("pairs", lower[0] * vectors + lower[1])

    def forward(self, dense, keys):
        bottom = self.bottom(dense)
        vectors = torch.cat([bottom.unsqueeze(1), self.table(keys)], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2).contiguous())
        pairs = products.flatten(1).index_select(1, self.pairs)
        return torch.sigmoid(self.top(torch.cat([bottom, pairs], dim=1)).float())


class Wide(nn.Module):
    """Common to DeepFM and DCNv2: numbers and rows of tables side by side, three layers of 1024."""

    def __init__(self, rows, dim):
        super().__init__()
        self.table = nn.Embedding(sum(rows), dim)
        nn.init.uniform_(self.table.weight, -0.05, 0.05)
        self.width = dlrm.DENSE + len(rows) * dim
        self.deep = dlrm.mlp([self.width, 1024, 1024, 1024], relu_after_last=True)


class DeepFM(Wide):
    def __init__(self, rows, dim):
        super().__init__(rows, dim)
        self.wide = nn.Embedding(sum(rows), 1)
        self.numbers = nn.Linear(dlrm.DENSE, 1)
        self.output = nn.Linear(1024, 1)

    def forward(self, dense, keys):
        vectors = self.table(keys)
        pairs = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1, keepdim=True)
        deep = self.output(self.deep(torch.cat([dense, vectors.flatten(1)], dim=1)))
        wide = self.wide(keys).sum(1) + self.numbers(dense)
        return torch.sigmoid((wide + pairs + deep).float())


class DCNv2(Wide):
    def __init__(self, rows, dim):
        super().__init__(rows, dim)
        self.down = nn.ModuleList(nn.Linear(self.width, 64, bias=False) for _ in range(3))
        self.up = nn.ModuleList(nn.Linear(64, self.width) for _ in range(3))
        self.output = nn.Linear(self.width + 1024, 1, bias=False)

    def forward(self, dense, keys):
        first = torch.cat([dense, self.table(keys).flatten(1)], dim=1)
        cross = first
        for down, up in zip(self.down, self.up):
            cross = first * up(down(cross)) + cross
        return torch.sigmoid(self.output(torch.cat([cross, self.deep(first)], dim=1)).float())


def make_model(arguments):
    rows, dim, bottom, top = shape_of(arguments)
    kinds = {"deepfm-kaggle": DeepFM, "dcnv2-kaggle": DCNv2}
    return kinds[arguments.preset](rows, dim) if arguments.preset in kinds else Inference(rows, dim, bottom, top)


def shape_of(arguments):
    if arguments.preset == "hps-dlrm":
        rows = [max(4, r // arguments.divide_tables) for r in FL15_ROWS]
        return rows, 128, [512, 256, 128], [1024, 1024, 512, 256]
    bottom = [512, 256, 64, 16] if arguments.dim == 16 else [512, 256, arguments.dim]
    return dlrm.TABLE_ROWS, arguments.dim, bottom, [512, 256]


DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "int8": torch.float32}


def type_of(arguments):
    """Of tables, layers and inputs: on the CPU fp32, from which autocast rounds."""
    return DTYPES[arguments.precision] if arguments.device == "cuda" else torch.float32


def make_batches(arguments, rows, count, device):
    dlrm.TABLE_ROWS = rows
    starts = torch.tensor(np.concatenate([[0], np.cumsum(rows)[:-1]]))
    return [(dense.to(device, type_of(arguments)), (keys + starts[:, None]).t().contiguous().to(device))
            for dense, keys, _ in dlrm.make_batches(count, arguments.batch, arguments.alpha, arguments.seed)]


def quantize(path, examples):
    """Weights by column, inputs of layers by their ranges on `examples`; returns the new file."""
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.rest = iter(examples)

        def get_next(self):
            batch = next(self.rest, None)
            return None if batch is None else {"dense": batch[0].numpy(), "keys": batch[1].numpy()}
    to = path + ".int8"
    quantization.quantize_static(path, to, Reader(), per_channel=True, op_types_to_quantize=["Gemm", "MatMul"],
                                 quant_format=quantization.QuantFormat.QDQ)
    return to


def onnx_session(model, example, threads, quantized_by=None):
    import onnxruntime
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        torch.onnx.export(model, example, path, input_names=["dense", "keys"], output_names=["p"],
                          dynamic_axes={"dense": {0: "n"}, "keys": {0: "n"}}, dynamo=False)
        if quantized_by:
            path = quantize(path, quantized_by)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def under_autocast(run, batch):
    with torch.autocast("cpu", torch.bfloat16):
        return run(*batch)


class CudaGraph:
    def __init__(self, model, example):
        self.inputs = [t.clone() for t in example]
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(*self.inputs)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = model(*self.inputs)

    def __call__(self, *batch):
        for to, value in zip(self.inputs, batch):
            to.copy_(value, non_blocking=True)
        self.graph.replay()
        return self.out


def variants(arguments, model, examples, device):
    """(name, function of a batch, function that prepares a batch)."""
    same = lambda batch: batch
    example = examples[0]
    if arguments.precision == "int8":
        session = onnx_session(model, example, arguments.threads, examples[:8])
        yield ("onnx", lambda dense, keys: session.run(None, {"dense": dense, "keys": keys}),
               lambda batch: [t.numpy() for t in batch])
        return
    if device == "cpu" and arguments.precision == "bf16":
        for name, program in ("eager", model), ("compiled", torch.compile(model)):
            yield name, lambda *batch, run=program: under_autocast(run, batch), same
        return
    yield "eager", model, same
    yield "compiled", torch.compile(model), same
    if device == "cuda":
        yield "graph", CudaGraph(torch.compile(model), example), same
    else:
        session = onnx_session(model, example, arguments.threads)
        yield ("onnx", lambda dense, keys: session.run(None, {"dense": dense, "keys": keys}),
               lambda batch: [t.numpy() for t in batch])


def measure(run, batches, seconds, device):
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for number in range(20):
        run(*batches[number % len(batches)])
    wait()
    taken = []
    start = time.perf_counter()
    while len(taken) < 20 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        run(*batches[len(taken) % len(batches)])
        wait()
        taken.append(time.perf_counter() - before)
    return sorted(taken)


def result_json(arguments, name, variant, taken, all_p50):
    quarter = len(taken) // 4
    return {
        "schema": 1, "benchmark": "infer", "name": name,
        "program": f"pytorch {torch.__version__.split('+')[0]} ({variant})",
        "machine": dlrm.machine(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "settings": {"batch": arguments.batch, "threads": arguments.threads, "runs": len(taken),
                     "device": arguments.device, "precision": arguments.precision,
                     "variant": variant, **{f"latency_p50_{v}": s for v, s in all_p50.items()}},
        "metrics": {
            "latency_p50": {"value": statistics.median(taken), "unit": "s", "higher_is_better": False,
                            "spread": taken[3 * quarter] - taken[quarter]},
            "latency_p99": {"value": taken[int(0.99 * len(taken))], "unit": "s",
                            "higher_is_better": False},
            "samples_per_second": {"value": arguments.batch * len(taken) / sum(taken),
                                   "unit": "samples/s", "higher_is_better": True},
        },
    }


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--preset", choices=("dlrm-kaggle", "deepfm-kaggle", "dcnv2-kaggle", "hps-dlrm"),
                        default="dlrm-kaggle")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--dim", type=int, choices=(16, 128), default=16)
    parser.add_argument("--divide-tables", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=tuple(DTYPES), default="fp32",
                        help="of layers and, on a GPU, tables")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=2.0, help="minimum timed seconds per variant")
    parser.add_argument("--alpha", type=float, default=1.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="write the fastest variants' results here")
    return parser.parse_args()


@torch.inference_mode()
def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    rows, dim = shape_of(arguments)[:2]
    device = arguments.device
    if arguments.precision == ("int8" if device == "cuda" else "fp16"):
        sys.exit(f"--precision {arguments.precision} needs another --device")
    model = make_model(arguments).eval().to(device, type_of(arguments))
    count = min(1000, max(4, 1_000_000 // arguments.batch))
    batches = make_batches(arguments, rows, count, device)
    expected = model(*batches[0]).cpu().numpy()
    taken = {"": {}, "-stream": {}}
    for name, run, prepare in variants(arguments, model, batches, device):
        try:
            prepared = [prepare(batch) for batch in batches]
            answer = run(*prepared[0])
            answer = answer[0] if isinstance(answer, list) else answer.cpu().numpy()
            tolerance = {"fp32": 1e-3, "int8": 0.2}.get(arguments.precision, 3e-2)
            np.testing.assert_allclose(answer, expected, rtol=tolerance, atol=1e-5)
            taken[""][name] = measure(run, prepared[:1], arguments.seconds, device)
            taken["-stream"][name] = measure(run, prepared, arguments.seconds, device)
        except Exception as error:  # a variant that does not run here is reported, not fatal
            if name != "compiled":
                raise
            print(f"{name:9} does not run here: {str(error).splitlines()[0]}", flush=True)
            continue
        print(f"{name:9} p50 {1e6 * statistics.median(taken[''][name]):10.1f} us, "
              f"stream {1e6 * statistics.median(taken['-stream'][name]):10.1f} us", flush=True)
    results = []
    narrow = "" if arguments.precision == "fp32" else f"-{arguments.precision}"
    scale = f"-tables/{arguments.divide_tables}" if arguments.divide_tables > 1 else ""
    for suffix, by_variant in taken.items():
        p50 = {name: statistics.median(t) for name, t in by_variant.items()}
        best = min(p50, key=p50.get)
        name = f"{arguments.preset}{scale}-d{dim}-b{arguments.batch}{narrow}{suffix}"
        results.append(result_json(arguments, name, best, by_variant[best], p50))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
