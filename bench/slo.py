#!/usr/bin/env python3
"""Which request rate a server sustains within a latency target, with fixed queue delays and with --slo-p99-us.

    bench/slo.py --emblem build/release/emblem --target-us 5000

Trains and exports a DLRM with the top layers of MLPerf's, then serves it on some cores and sends requests from others, in open loop, at shares of the
rate that the server reaches without a delay in closed loop. A row holds the target if 99 % of its requests did."""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile
import time

PIPELINE = """
train_input_path: "{folder}/data/train"
model_dir: "{folder}/model"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.02 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.001 }} }}
  num_epochs: 1
}}
data_config {{ dataset_type: CriteoTsvDataset fg_mode: FG_DAG batch_size: 256 }}
feature_configs {{ raw_feature {{ feature_name: "I{{1..13}}" normalizer: "method=log1p" }} }}
feature_configs {{ id_feature {{ feature_name: "C{{1..26}}" embedding_dim: 16 hash_bucket_size: 100000 }} }}
model_config {{
  feature_groups {{ group_name: "dense" feature_names: "I{{1..13}}" }}
  feature_groups {{ group_name: "sparse" feature_names: "C{{1..26}}" }}
  dlrm {{ dense_mlp {{ hidden_units: [512, 256, 16] }} final {{ hidden_units: [1024, 1024, 512, 256] }} }}
}}
"""


class Bench:
    def __init__(self, options, folder, pipeline=PIPELINE):
        self.options, self.folder = options, folder
        self.emblem("synth", "--preset", "criteo", "--rows", 5000, "--test-rows", 100, "--scale", 0.01, "--format", "tsv",
                    "--out", folder / "data")
        (folder / "pipeline.config").write_text(pipeline.format(folder=folder))
        self.emblem("train", "--config", folder / "pipeline.config")
        self.emblem("export", "--checkpoint", folder / "model", "--out", folder / "models/dlrm")
        self.base = (folder / "models/dlrm/config.pbtxt").read_text()

    def emblem(self, *arguments):
        subprocess.run([self.options.emblem, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def serve(self, setting):
        """The process and its addresses by protocol. `setting`: a queue delay in microseconds, or "slo"."""
        config, more = self.base, []
        config = re.sub(r"count: \d+", f"count: {self.options.engines}", config)
        if setting == "slo":
            more = ["--slo-p99-us", str(self.options.target_us)]
        else:
            config = config.replace("dynamic_batching {", f"dynamic_batching {{ max_queue_delay_microseconds: {setting}")
        (self.folder / "models/dlrm/config.pbtxt").write_text(config)
        process = subprocess.Popen(
            ["taskset", "-c", self.options.server_cores, self.options.emblem, "serve", "--models", self.folder / "models",
             "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", "--http-threads",
             str(self.options.http_threads), *more],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        addresses = {}
        for line in process.stdout:
            if found := re.match(r"(http|grpc)\s+\S*?(127[\d.]+:\d+)", line):
                addresses[found[1]] = found[2]
            if line.startswith("ready"):
                return process, addresses
        raise SystemExit("the server did not start")

    def load(self, setting, *load, protocol="http"):
        process, addresses = self.serve(setting)
        begin, before = time.monotonic(), self.cpu_seconds(process.pid)
        subprocess.run(["taskset", "-c", self.options.client_cores, self.options.emblem, "bench", "serve", "--url", addresses[protocol],
                        "--protocol", protocol, "--model", "dlrm", "--seconds", str(self.options.seconds), "--warmup", "1", "--max-in-flight", "2048",
                        "--json", self.folder / "out.json", *map(str, load)], check=True, stdout=subprocess.DEVNULL)
        wall, used = time.monotonic() - begin, self.cpu_seconds(process.pid) - before
        process.terminate()
        process.wait()
        metrics = {name: value["value"] for name, value in json.loads((self.folder / "out.json").read_text())["metrics"].items()}
        metrics["cpu_us"] = used / wall / metrics["requests_per_second"] * 1e6
        return metrics

    @staticmethod
    def cpu_seconds(pid):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--emblem", default="build/release/emblem")
    parser.add_argument("--target-us", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--server-cores", default="0")
    parser.add_argument("--client-cores", default="1")
    parser.add_argument("--engines", type=int, default=1)
    parser.add_argument("--http-threads", type=int, default=1)
    parser.add_argument("--most", type=float, help="the rate that shares refer to, instead of the measured one")
    parser.add_argument("--settings", default="0,500,1000,2000,slo", help="queue delays in microseconds, and slo")
    parser.add_argument("--shares", default="0.5,0.8,0.9,1,1.1,1.2,1.3,1.4,1.5,1.6,1.8,2")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="emblem-slo-") as folder:
        bench = Bench(options, pathlib.Path(folder))
        most = options.most or bench.load("0", "--concurrency", 128)["requests_per_second"]
        print(f"shares of {most:.0f} requests/s; target {options.target_us} us")
        print(f"{'delay':>8} {'share':>6} {'rate/s':>8} {'p50 us':>8} {'p99 us':>8} {'batch':>6} {'CPU us':>7}")
        for setting in options.settings.split(","):
            for share in map(float, options.shares.split(",")):
                got = bench.load(setting, "--rate", int(share * most))
                held = got["p99"] * 1e6 <= options.target_us and got["errors"] == 0
                print(f"{setting:>8} {share:>6} {got['requests_per_second']:>8.0f} {got['p50'] * 1e6:>8.0f} "
                      f"{got['p99'] * 1e6:>8.0f} {got['server_rows_per_batch']:>6.1f} {got['cpu_us']:>7.1f} "
                      f"{'' if held else 'missed'}", flush=True)
                if not held and share >= 1:
                    break


if __name__ == "__main__":
    main()
