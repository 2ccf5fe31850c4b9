#!/usr/bin/env python3
"""Loading over a link with latency: large objects, small ones, bundles of these, and a warm cache beside local files.

    python3 bench/remote/run.py --emblem build/release/emblem --json remote.json

Builds link_server.cc, writes Raw data of --mb MB as objects of 4 MB, of 100 KB and as bundles, serves them over a link of
--latency-ms and --mb-per-s, and runs `emblem bench loader` on them in one run."""
import argparse, json, os, pathlib, random, shutil, subprocess, tempfile

PIPELINE = """
train_input_path: "none"
model_dir: "none"
train_config { num_epochs: 1 sparse_optimizer { adagrad_optimizer { lr: 0.02 } } dense_optimizer { adam_optimizer { lr: 0.001 } } }
data_config { dataset_type: RawDataset fg_mode: FG_DAG batch_size: 8192 num_workers: 2 shuffle: false }
feature_configs { raw_feature { feature_name: "I{1..13}" normalizer: "method=log,offset=3" default_value: "1.0986123" } }
feature_configs { id_feature { feature_name: "C{1..26}" embedding_dim: 8 num_buckets: 2147483647 } }
model_config {
  feature_groups { group_name: "dense" feature_names: "I{1..13}" }
  feature_groups { group_name: "sparse" feature_names: "C{1..26}" }
  dlrm { dense_mlp { hidden_units: [32, 8] } final { hidden_units: [32] } }
  metrics { auc { thresholds: 0 } }
}
"""
RECORD = 160


def write_objects(folder, total, size):
    """Raw records: label, 13 dense, 26 sparse as int32."""
    folder.mkdir(parents=True)
    size -= size % RECORD
    row = random.Random(1)
    block = b"".join((row.getrandbits(1)).to_bytes(4, "little") + b"".join(row.randrange(1 << 20).to_bytes(4, "little")
                     for _ in range(39)) for _ in range(1000))
    content = (block * (size // len(block) + 1))[:size]
    for i in range(max(1, total // size)):
        (folder / f"part-{i:06d}.bin").write_bytes(content)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--emblem", default="build/release/emblem")
    parser.add_argument("--mb", type=int, default=800)
    parser.add_argument("--small-mb", type=int, default=400)
    parser.add_argument("--latency-ms", type=float, default=20)
    parser.add_argument("--mb-per-s", type=float, default=200)
    parser.add_argument("--connections", default="1,4,16,64")
    parser.add_argument("--rounds", default="3")
    parser.add_argument("--server", help="link_server, compiled already")
    parser.add_argument("--json")
    options = parser.parse_args()
    here = pathlib.Path(__file__).resolve().parent
    folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-remote-"))
    try:
        measure(options, here, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(options, here, folder):
    server_program = options.server or folder / "link_server"
    if not options.server:
        subprocess.run(["g++", "-O2", "-std=c++20", "-pthread", here / "link_server.cc", "-o", server_program], check=True)
    objects = folder / "objects"
    write_objects(objects / "large", options.mb * 10**6, 4 * 10**6)
    write_objects(objects / "small", options.small_mb * 10**6, 10**5)
    subprocess.run([options.emblem, "convert", "--from", objects / "small", "--to", objects / "bundles", "--format", "raw",
                    "--bundle-gb", "0.1"], check=True, stdout=subprocess.DEVNULL)
    config = folder / "remote.config"
    config.write_text(PIPELINE)
    environment = dict(os.environ, AWS_ACCESS_KEY_ID="none", AWS_SECRET_ACCESS_KEY="none", AWS_REGION="us-east-1",
                       AWS_EC2_METADATA_DISABLED="true")
    server = subprocess.Popen([server_program, objects, "0", str(options.latency_ms), str(options.mb_per_s)],
                              stdout=subprocess.PIPE, text=True)
    results = []
    try:
        url = server.stdout.readline().strip()

        def bench(name, *arguments, seconds="600"):
            out = folder / f"{name}.json"
            subprocess.run([options.emblem, "bench", "loader", "--config", config, "--endpoint", url, "--cache-dir",
                            folder / "cache", "--seconds", seconds, "--rounds", options.rounds, "--workers", "2", "--json", out,
                            *arguments], check=True, env=environment, stdout=subprocess.DEVNULL)
            found = json.loads(out.read_text())
            results.extend(found if isinstance(found, list) else [found])

        bench("large", "--input", "large=s3://large/", "--page-cache", "cold", "--connections", options.connections)
        bench("small", "--input", "small=s3://small/", "--page-cache", "cold", "--connections", "16")
        bench("bundles", "--input", "bundles=s3://bundles/", "--page-cache", "cold", "--connections", "16")
        # Side by side: settings alternate.
        bench("warm", "--input", f"local={objects / 'large'}", "--input", "cached=s3://large/", "--page-cache", "warm",
              seconds="5")
    finally:
        server.kill()
        server.wait()
    show(results, options)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))


def show(results, options):
    link = options.mb_per_s * 1e6
    rates = {}
    for result in results:
        value = {name: metric["value"] for name, metric in result["metrics"].items()}
        rates[result["name"]] = value
        print(f"{result['name']:38s} {value['bytes_per_second'] / 1e6:8.1f} MB/s  {100 * value['bytes_per_second'] / link:5.1f} % of "
              f"the link  {value.get('requests', 0):7.0f} requests  network wait {value.get('network_wait', 0):3.0f} %")
    by_label = {}
    for result in results:
        by_label.setdefault(result["settings"]["input"], []).append(result["metrics"]["bytes_per_second"]["value"])
    best = {label: max(values) for label, values in by_label.items()}
    print(f"large objects: {100 * best['large'] / link:.0f} % of the link; bundles: {100 * best['bundles'] / link:.0f} % of the link, "
          f"{best['bundles'] / best['small']:.1f} times the small objects; warm cache: "
          f"{100 * best['cached'] / best['local']:.0f} % of local files")


if __name__ == "__main__":
    main()
