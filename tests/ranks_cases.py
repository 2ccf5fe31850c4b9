"""Trainings on several ranks: pipelines in which every pair of settings occurs, and what a checkpoint has learned."""

import concurrent.futures
import itertools
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import CLEAN, EMBLEM, MPIRUN, run

SHARDS = 8

NUMBERS = '"age", "price"'
IDS = '"user", "tags", "item"'
ALL = f"{NUMBERS}, {IDS}"
DEEP = f'feature_groups {{ group_name: "deep" feature_names: [{ALL}] }}'
ONE = f'feature_groups {{ group_name: "all" feature_names: [{ALL}] }}'
WIDE = f'feature_groups {{ group_name: "wide" group_type: WIDE feature_names: [{IDS}] }}'
SPLIT = ('feature_groups { group_name: "dense" feature_names: "age" }\n'
         f'  feature_groups {{ group_name: "sparse" feature_names: [{IDS}] }}')
CLICKS = ('feature_groups { group_name: "clicks" group_type: SEQUENCE feature_names: ["item", "clicks__item"] }')
CLICK = "losses { binary_cross_entropy {} } metrics { auc { thresholds: 0 } } metrics { log_loss {} }"
TOWERS = """
    task_towers { tower_name: "ctr" label_name: "clk" mlp { hidden_units: [8] } losses { binary_cross_entropy {} }
      metrics { auc {} } metrics { grouped_auc { grouping_key: "user" } } }
    task_towers { tower_name: "cvr" label_name: "buy" mlp { hidden_units: [8] } losses { binary_cross_entropy {} }
      metrics { auc { thresholds: 0 } } RELATION
      task_space_indicator_label: "clk" in_task_space_weight: 1 out_task_space_weight: 0.5 }"""
FREE_TOWERS = TOWERS.replace("RELATION", "")
EXPERTS = "expert_num_per_task: 1 share_num: 1 task_expert_net { hidden_units: [8] } share_expert_net { hidden_units: [8] }"

MODELS = {
    "dlrm": f"{SPLIT} dlrm {{ dense_mlp {{ hidden_units: [8, 4] }} final {{ hidden_units: [8] }} }} {CLICK}",
    "deepfm": f"{WIDE} {DEEP} deepfm {{ deep {{ hidden_units: [8] use_bn: true }} final {{ hidden_units: [4] }} }} {CLICK}",
    "dcn_v2": f"{ONE} dcn_v2 {{ cross {{ cross_num: 2 low_rank: 4 }} deep {{ hidden_units: [8] dropout_ratio: 0.2 }} }} {CLICK}",
    "multi_tower_din": f"{ONE} {CLICKS} multi_tower_din {{ towers {{ input: 'all' mlp {{ hidden_units: [8] }} }} "
                       f"din_towers {{ input: 'clicks' attn_mlp {{ hidden_units: [4] }} }} final {{ hidden_units: [8] }} }} {CLICK}",
    "wide_and_deep": f"{WIDE} {DEEP} wide_and_deep {{ deep {{ hidden_units: [8] use_ln: true }} }} {CLICK}",
    "masknet": f"{ONE} mask_net {{ mask_net_module {{ n_mask_blocks: 2 mask_block {{ reduction_ratio: 1 hidden_dim: 8 }} "
               f"top_mlp {{ hidden_units: [8] }} use_parallel: true }} }} {CLICK}",
    "wukong": f"{SPLIT} wukong {{ dense_mlp {{ hidden_units: [8, 4] }} wukong_layers {{ lcb_feature_num: 2 fmb_feature_num: 2 "
              f"compressed_feature_num: 2 feature_num_mlp {{ hidden_units: [8] }} }} final {{ hidden_units: [8] }} }} {CLICK}",
    "xdeepfm": f"{WIDE} {DEEP.replace(ALL, IDS)} xdeepfm {{ cin {{ cin_layer_size: [4] }} deep {{ hidden_units: [8] }} "
               f"final {{ hidden_units: [8] }} }} {CLICK}",
    "rocket_launching": f"{ONE} num_class: 2 rocket_launching {{ share_mlp {{ hidden_units: [8] }} booster_mlp {{ hidden_units: [8, 4] }} "
                        "light_mlp { hidden_units: [4, 4] } feature_based_distillation: true } "
                        "losses { softmax_cross_entropy {} } metrics { auc {} }",
    "mmoe": f"{ONE} mmoe {{ expert_mlp {{ hidden_units: [8] }} num_expert: 2 {FREE_TOWERS} }}",
    "ple": f"{ONE} ple {{ extraction_networks {{ network_name: 'one' {EXPERTS} }} {FREE_TOWERS} }}",
    "dbmtl": f"{ONE} dbmtl {{ bottom_mlp {{ hidden_units: [8] }} "
             + TOWERS.replace("RELATION", 'relation_tower_names: "ctr" relation_mlp { hidden_units: [4] }') + " }",
    "pepnet": f"{ONE} feature_groups {{ group_name: 'domain' feature_names: 'price' }} "
              f"feature_groups {{ group_name: 'uia' feature_names: 'user' }} "
              f"pepnet {{ epnet_hidden_unit: 8 ppnet_hidden_units: [8] {FREE_TOWERS} }}",
}
TWO_LABELS = {"mmoe", "ple", "dbmtl", "pepnet"}

SPARSE = {
    "sgd": "sgd_optimizer { lr: 0.05 }",
    "adagrad": "adagrad_optimizer { lr: 0.05 }",
    "rowwise_adagrad": "rowwise_adagrad_optimizer { lr: 0.05 }",
    "adam": "adam_optimizer { lr: 0.01 weight_decay: 0.01 }",
    "partial_rowwise_adam": "partial_rowwise_adam_optimizer { lr: 0.01 }",
    "adadelta": "adadelta_optimizer { lr: 0.5 }",
    "rmsprop": "rmsprop_optimizer { lr: 0.01 }",
    "momentum": "momentum_optimizer { lr: 0.05 }",
    "ftrl": "ftrl_optimizer { lr: 0.05 }",
}
DENSE = {"adam": "adam_optimizer { lr: 0.005 }", "sgd": "sgd_optimizer { lr: 0.05 }",
         "adamw": "adamw_optimizer { lr: 0.005 } ema { decay: 0.9 }"}
POOLING = {"sum": "", "mean": 'pooling: "mean"', "weighted": "weighted: true", "weighted mean": 'weighted: true pooling: "mean"'}
GROWING = 'max_capacity: 4096 score_strategy: "NO_EVICTION"'
TABLES = {
    "static": "num_buckets: 97",
    "hashed": "hash_bucket_size: 300",
    "dynamic": f"dynamicemb {{ {GROWING} }}",
    "admission": f"dynamicemb {{ {GROWING} frequency_admission_strategy {{ threshold: 2 }} }}",
    "counting": 'dynamicemb { max_capacity: 4096 score_strategy: "LFU" }',
    "shared": 'num_buckets: 4100 embedding_name: "shared"',
}
PLANS = ["default", "rows", "one rank", "replicated", "mixed", "columns", "pooled"]
AXES = {"model": list(MODELS), "sparse": list(SPARSE), "dense": list(DENSE), "pooling": list(POOLING), "tables": list(TABLES),
        "plan": PLANS, "ranks": [2, 3, 4, 8]}

SHUFFLE = "shuffle: true shuffle_buffer_size: 2"

PIPELINE = """
train_input_path: "{data}/train"
eval_input_path: "{data}/test"
model_dir: "{model_dir}"
train_config {{
  sparse_optimizer {{ {sparse} }}
  dense_optimizer {{ {dense} }}
  num_epochs: {epochs}
  save_checkpoints_steps: 0
  log_step_count_steps: 1
  seed: 5
  logical_shards: {shards}
  {train}
}}
data_config {{
  dataset_type: CsvDataset with_header: true fg_mode: FG_DAG batch_size: {batch} num_workers: 1
  label_fields: [{labels}] {input}
}}
feature_configs {{ raw_feature {{ feature_name: "age" }} }}
feature_configs {{ raw_feature {{ feature_name: "price" embedding_dim: 4 boundaries: [10, 20, 30] }} }}
feature_configs {{ id_feature {{ feature_name: "user" embedding_dim: 4 {tables} }} }}
feature_configs {{ id_feature {{ feature_name: "tags" embedding_dim: 4 {tables} {pooling} }} }}
feature_configs {{ id_feature {{ feature_name: "item" embedding_dim: 4 {tables} }} }}
feature_configs {{
  sequence_feature {{
    sequence_name: "clicks" sequence_length: 5 sequence_delim: "|"
    features {{ id_feature {{ feature_name: "item" embedding_dim: 4 {tables} }} }}
  }}
}}
model_config {{
  {model}
}}
"""


def covering_cases(axes):
    """Few combinations of one value of each axis, such that every pair of values of two axes is in one of them."""
    names = list(axes)
    missing = {((a, x), (b, y)) for a, b in itertools.combinations(names, 2) for x in axes[a] for y in axes[b]}
    order = sorted(missing, key=str)
    cases = []
    while missing:
        case = dict(next(pair for pair in order if pair in missing))
        for name in names:
            if name not in case:
                case[name] = max(axes[name], key=lambda value: sum(
                    pair in missing for pair in pairs_with(case, name, value, names)))
        missing -= set(itertools.combinations(((name, case[name]) for name in names), 2))
        cases.append({name: case[name] for name in names})
    return cases


def pairs_with(case, name, value, names):
    for other, chosen in case.items():
        pair = ((name, value), (other, chosen))
        yield pair if names.index(name) < names.index(other) else pair[::-1]


def pipeline(case, data, model_dir, *, shards=SHARDS, batch=8, epochs=1, train="", input=SHUFFLE):
    """The text of a configuration."""
    text = PIPELINE.format(
        data=data, model_dir=model_dir, sparse=SPARSE[case["sparse"]], dense=DENSE[case["dense"]],
        pooling=POOLING[case["pooling"]], tables=TABLES[case["tables"]], model=MODELS[case["model"]], shards=shards,
        labels='"clk", "buy"' if case["model"] in TWO_LABELS else '"clk"', batch=batch, epochs=epochs, train=train,
        input=input)
    return text if shards else re.sub(r"  logical_shards: 0\n", "", text)


def plan_for(kind, tables, ranks):
    """The text of a plan, or None: rows of every table over all ranks."""
    if kind == "default":
        return None
    # Tables that evict rows are cut at multiples of 256 parts.
    uneven = ["none"] * (ranks - 2) + ["0-255", "256-4095"] if ranks > 1 else ["0-4095"]
    kinds = {"rows": ["rows " + " ".join(uneven)], "one rank": [f"rank {ranks - 1}"], "replicated": ["replicated"],
             "columns": [f"columns 2 {ranks - 1} 0" if ranks > 1 else "columns 1 0",
                         f"columns {min(ranks, 3)} " + " ".join(map(str, range(min(ranks, 3)))), "rows"],
             "pooled": [f"rank {ranks // 2} pooled owner", f"rank {ranks - 1} pooled owner", "rows"],
             "mixed": ["replicated", "rows " + " ".join(uneven), "rank 0", "rows", f"rank {ranks - 1}"]}[kind]
    return f"ranks {ranks}\n" + "".join(f"{name} {kinds[i % len(kinds)]}\n" for i, name in enumerate(tables))


def run_on(ranks, *arguments, transport="launch", hosts="", **kwargs):
    """A command on this number of ranks, which are on hosts with these letters as names ("aab": two on a, one on b)."""
    command = [EMBLEM, *map(str, arguments)]
    if transport == "mpi":
        command += ["--transport", "mpi"]
    if hosts:
        script = f'names={hosts}; export EMBLEM_HOST_NAME=${{names:${{OMPI_COMM_WORLD_RANK:-$RANK}}:1}}; exec "$0" "$@"'
        command = ["bash", "-c", script, *command]
    if transport == "mpi":
        command = [*MPIRUN, "-n", str(ranks), *command]
    elif hosts:
        command = [EMBLEM, "launch", "--ranks", str(ranks), "--program", command[0], "--", *command[1:]]
    elif ranks > 1:
        command[1:1] = ["launch", "--ranks", str(ranks), "--"]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=CLEAN, **kwargs)


def train_on(ranks, *arguments, **kwargs):
    """`emblem train` on this number of ranks."""
    return run_on(ranks, "train", *arguments, **kwargs)


def make_data(config, out, rows, test_rows, files=1):
    """A data set for a pipeline, in this number of files."""
    made = run("synth", "--for", config, "--rows", rows, "--test-rows", test_rows, "--format", "csv", "--divide-tables", 20,
               "--out", out)
    assert made.returncode == 0, made.stderr
    if files > 1:
        part = pathlib.Path(out) / "train/part-00000.csv"
        header, *lines = part.read_text().removesuffix("\n").split("\n")  # values are separated by 0x1d
        for i in range(files):
            each = lines[i * len(lines) // files:(i + 1) * len(lines) // files]
            (part.parent / f"part-{i:05}.csv").write_text("\n".join([header, *each, ""]))


def records(path, count):
    """A file as `count` byte strings of equal size."""
    data = path.read_bytes() if path.exists() else b""
    size = len(data) // count if count else 0
    return [data[i * size:(i + 1) * size] for i in range(count)]


def rows_of(table):
    """Key -> (vector, optimizer state, score) of a saved table, and the counts of keys that wait for admission."""
    runs = [table] if (table / "key").exists() else sorted(path for path in table.iterdir() if path.is_dir())
    rows, waiting = {}, set()
    for each in runs:
        count = (each / "key").stat().st_size // 8
        rows_here = zip(records(each / "key", count),
                        zip(*(records(each / name, count) for name in ("emb_vector", "state", "score"))))
        for key, row in rows_here:
            assert key not in rows, f"{each} has a key twice"
            rows[key] = row
        if (each / "admission").exists():
            waiting.update(records(each / "admission", (each / "admission").stat().st_size // 16))
    return rows, waiting


def learned(checkpoint):
    """Everything of a checkpoint that later steps depend on, and its metrics: equal for any number of ranks."""
    checkpoint = pathlib.Path(checkpoint)
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    found = {"dense": (checkpoint / "dense.safetensors").read_bytes()}
    for name in ("step", "epoch", "early_stopping", "shard_positions", "schedules", "metrics"):
        found[name] = manifest.get(name)
    for table in manifest["tables"]:
        rows, waiting = rows_of(checkpoint / "tables" / table["name"])
        assert table["rows"] == len(rows), (table["name"], table["rows"], len(rows))
        found["rows of " + table["name"]], found["waiting for " + table["name"]] = rows, waiting
        runs = list((checkpoint / "tables" / table["name"]).rglob("table.json"))
        found["clock of " + table["name"]] = {json.loads(path.read_text())["clock"] for path in runs}
    return found


def differences(a, b):
    """The names of what differs between two checkpoints; a table with the number of its rows that do."""
    a, b = learned(a), learned(b)
    names = []
    for name in a.keys() | b.keys():
        x, y = a.get(name), b.get(name)
        if x != y:
            rows = isinstance(x, dict) and isinstance(y, dict) and name.startswith("rows of ")
            names.append(f"{name}: {sum(x.get(k) != y.get(k) for k in x.keys() | y.keys())}" if rows else name)
    return sorted(names)


def latest(model_dir):
    return max(pathlib.Path(model_dir).glob("model.ckpt-*"), key=lambda path: int(path.name.rpartition("-")[2]))


def tables_of(checkpoint):
    return [table["name"] for table in json.loads((pathlib.Path(checkpoint) / "manifest.json").read_text())["tables"]]


def losses(model_dir):
    """The loss of every logged step."""
    lines = (pathlib.Path(model_dir) / "train_log.jsonl").read_text().splitlines()
    return {line["global_step"]: line["loss"] for line in map(json.loads, lines) if "loss" in line}


class Runs:
    """Trainings with one pipeline, in a folder of their own."""

    def __init__(self, case, *, rows=1000, test_rows=100, files=1, data=None, **settings):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-ranks-"))
        self.config = self.folder / "pipeline.config"
        self.data = data or self.folder / "data"
        self.config.write_text(pipeline(case, self.data, self.folder / "model", **settings))
        if not data:
            make_data(self.config, self.data, rows, test_rows, files)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        shutil.rmtree(self.folder, ignore_errors=True)

    def edit(self, old, new):
        """Changes the configuration."""
        text = self.config.read_text()
        assert old in text, old
        self.config.write_text(text.replace(old, new))

    def try_to_train(self, ranks, *options, name=None, **kwargs):
        return train_on(ranks, "--config", self.config, "--model-dir", self.folder / (name or f"on-{ranks}"), *options, **kwargs)

    def train(self, ranks, *options, name=None, **kwargs):
        """The folder of a training that succeeds."""
        done = self.try_to_train(ranks, *options, name=name, **kwargs)
        assert done.returncode == 0, f"{ranks} ranks: {done.stderr}"
        return self.folder / (name or f"on-{ranks}")

    def plan(self, kind, checkpoint, ranks):
        """Options with a plan for the tables of a checkpoint."""
        text = plan_for(kind, tables_of(checkpoint), ranks)
        if text is None:
            return []
        with tempfile.NamedTemporaryFile("w", prefix="plan-", dir=self.folder, delete=False) as file:
            file.write(text)
        return ["--set", f"train_config.plan_path={file.name}"]


def require_same(a, b):
    """Two trainings ended with bit-identical models and logged the same losses."""
    found = differences(latest(a), latest(b))
    assert not found, f"{b.name} differs from {a.name}: {', '.join(found)}"
    assert losses(a) == losses(b), f"losses of {b.name} differ from those of {a.name}"


def run_case(case, numbers, data, options=(), of_ranks=()):
    """One rank against each of `numbers` ranks, with the plan of the case; `of_ranks`: options of the latter."""
    with Runs(case, data=data) as runs:
        one = runs.train(1, *options)
        # Columns of rows that are updated as a whole cannot be on several ranks.
        plan = "mixed" if case["plan"] == "columns" and "rowwise" in case["sparse"] else case["plan"]
        for ranks in numbers:
            require_same(one, runs.train(ranks, *runs.plan(plan, latest(one), ranks), *options, *of_ranks,
                                         hosts=case.get("hosts", "")))


class DataSets:
    """One data set for all cases that have the same columns."""

    def __init__(self, folder, rows):
        self.folder, self.rows, self.made = pathlib.Path(folder), rows, {}

    def of(self, case):
        kind = (case["model"] in TWO_LABELS, "weighted" in case["pooling"], case["tables"])
        if kind not in self.made:
            path = self.made[kind] = self.folder / f"data-{len(self.made)}"
            config = self.folder / "pipeline.config"
            config.write_text(pipeline(case, path, self.folder / "model"))
            make_data(config, path, self.rows, 100)
        return self.made[kind]


def run_cases(test, numbers_of, steps, options=(), of_ranks=(), at_once=2, axes=AXES):
    """All cases, some at once."""
    cases = covering_cases(axes)
    with tempfile.TemporaryDirectory(prefix="emblem-ranks-") as folder, \
            concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        sets = DataSets(folder, steps * SHARDS * 8)
        data = [sets.of(case) for case in cases]
        results = [pool.submit(run_case, case, numbers_of(case), data[i], options, of_ranks)
                   for i, case in enumerate(cases)]
        for case, result in zip(cases, results):
            with test.subTest(**case):
                result.result()
