"""Repositories of the shapes that users of HPS have: config.pbtxt, ps.json, tables as `key` and `emb_vector` files."""

import json
import pathlib

import numpy as np


class Table:
    """Rows of `keys` as HPS stores them; other keys read as `default`."""

    def __init__(self, folder, keys, dim, default=0.0, seed=0):
        self.folder, self.dim, self.default = pathlib.Path(folder), dim, default
        self.keys = np.asarray(keys, np.int64)
        self.rows = np.random.default_rng(seed).standard_normal((len(self.keys), dim), np.float32)
        self.order = np.argsort(self.keys)
        self.write()

    def write(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.keys.tofile(self.folder / "key")
        self.rows.tofile(self.folder / "emb_vector")

    def look_up(self, keys):
        keys = np.asarray(keys, np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys, sorter=self.order), len(self.keys) - 1)
        found = self.keys[self.order[at]] == keys
        rows = np.full((len(keys), self.dim), self.default, np.float32)
        rows[found] = self.rows[self.order[at[found]]]
        return rows.reshape(-1)


def model_entry(name, tables, keys_per_sample, **more):
    """An entry of `models` in ps.json."""
    return {
        "model": name,
        "sparse_files": [str(table.folder) for table in tables],
        "embedding_table_names": [f"sparse_embedding{i + 1}" for i in range(len(tables))],
        "embedding_vecsize_per_table": [table.dim for table in tables],
        "maxnum_catfeature_query_per_table_per_sample": keys_per_sample,
        "default_value_for_each_table": [table.default for table in tables],
        "deployed_device_list": [0],
        "num_of_worker_buffer_in_pool": 3,
        "max_batch_size": 1024,
        "cache_refresh_percentage_per_iteration": 0.2,
        "hit_rate_threshold": 1.0,
        "gpucacheper": 0.5,
        "gpucache": True,
        **more,
    }


CONFIG = """
name: "{name}"
backend: "{backend}"
max_batch_size:{max_batch_size},
input [
  {{ name: "KEYS" data_type: TYPE_INT64 dims: [ {dims} ] }},
  {{ name: "NUMKEYS" data_type: TYPE_INT32 dims: [ {dims} ] }}
]
output [ {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }} ]
version_policy: {{ specific:{{versions: {version}}} }},
instance_group [ {{ count: 1 kind : KIND_GPU gpus:[0] }} ]
parameters [ {parameters} ]
"""


def write_model(repository, name, max_batch_size=0, dims="-1", version=1, backend="hps", **parameters):
    """A model folder; returns that of its version, which may hold the tables."""
    folder = pathlib.Path(repository) / name
    (folder / str(version)).mkdir(parents=True)
    listed = ", ".join(f'{{ key: "{key}" value: {{ string_value: "{value}" }} }}' for key, value in parameters.items())
    (folder / "config.pbtxt").write_text(CONFIG.format(
        name=name, backend=backend, max_batch_size=max_batch_size, dims=dims, version=version, parameters=listed))
    return folder / str(version)


def write_ps(path, models, **more):
    path = pathlib.Path(path)
    path.write_text(json.dumps({"supportlonglong": True, **more, "models": models}, indent=1))
    return path
