"""Models as HugeCTR saves them (JSON graph, dense file, sparse folders), and what their graphs compute, in numpy."""

import json
import pathlib

import numpy as np


def data_layer(dense_dim, slots, nnz=1):
    """One sparse input for each number of slots."""
    return {"type": "Data", "format": "Parquet", "label": {"top": "label", "label_dim": 1},
            "dense": {"top": "dense", "dense_dim": dense_dim},
            "sparse": [{"top": f"data{i + 1}", "type": "DistributedSlot", "nnz_per_slot": [nnz] * count, "slot_num": count,
                        "is_fixed_length": nnz == 1} for i, count in enumerate(slots)]}


def embedding(number, dim, combiner="sum"):
    return {"type": "DistributedSlotSparseEmbeddingHash", "bottom": f"data{number}", "top": f"sparse_embedding{number}",
            "sparse_embedding_hparam": {"embedding_vec_size": dim, "combiner": combiner, "max_vocabulary_size_global": 1000}}


def fc(bottom, top, units, fused=False):
    return {"type": "FusedInnerProduct" if fused else "InnerProduct", "bottom": bottom, "top": top,
            "fc_param": {"num_output": units}}


def layer(type, bottom, top, **settings):
    return {"type": type, "bottom": bottom, "top": top, **settings}


def relu_mlp(prefix, bottom, units, dropout=None, epsilon=None):
    """InnerProduct, BatchNorm (with an epsilon), ReLU and Dropout layers, and the name of the last tensor."""
    layers = []
    for i, count in enumerate(units):
        layers.append(fc(bottom, f"{prefix}_fc{i}", count))
        bottom = f"{prefix}_fc{i}"
        if epsilon:
            layers.append(layer("BatchNorm", bottom, f"{prefix}_bn{i}", bn_param={"factor": 0.9, "eps": epsilon}))
            bottom = f"{prefix}_bn{i}"
        layers.append(layer("ReLU", bottom, f"{prefix}_relu{i}"))
        bottom = f"{prefix}_relu{i}"
        if dropout:
            layers.append(layer("Dropout", bottom, f"{prefix}_dropout{i}", rate=dropout))
            bottom = f"{prefix}_dropout{i}"
    return layers, bottom


def loss(bottom):
    return {"type": "BinaryCrossEntropyLoss", "bottom": [bottom, "label"], "top": "loss"}


class SavedModel:
    """The files of a graph with random parameters, and an interpreter of the graph that reads them."""

    def __init__(self, folder, layers, seed=0, projection=0):
        self.folder, self.layers, self.projection = pathlib.Path(folder), layers, projection
        self.random = np.random.default_rng(seed)
        self.folder.mkdir(parents=True)
        self.graph = self.folder / "model.json"
        self.graph.write_text(json.dumps({"layers": layers}, indent=1))
        self.dense = self.folder / "model_dense_2000.model"
        self.sparse, self.tables = [], {}
        for part in layers:
            if "sparse_embedding_hparam" not in part:
                continue
            folder = self.folder / f"model{len(self.sparse)}_sparse_2000.model"
            folder.mkdir()
            self.sparse.append(folder)
            keys = self.random.permutation(200).astype(np.int64) * 3
            rows = self.random.normal(0, 0.5, (200, part["sparse_embedding_hparam"]["embedding_vec_size"])).astype(np.float32)
            keys.tofile(folder / "key")
            rows.tofile(folder / "emb_vector")
            self.tables[part["top"]] = dict(zip(keys.tolist(), rows.astype(np.float64)))
        # The parameters, drawn while the graph runs once.
        self.parameters, self.statistics = [], []
        data = layers[0]
        self.slots = sum(sparse["slot_num"] for sparse in data["sparse"])
        self.run(np.zeros((1, data["dense"]["dense_dim"])), [[[0]] * self.slots], draw=True)
        np.concatenate(self.parameters).astype(np.float32).tofile(self.dense)
        if self.statistics:
            pathlib.Path(f"{self.dense}.ntp.json").write_text(json.dumps({"layers": self.statistics}))

    def take(self, *shape, around=0):
        """The next parameters of the dense file."""
        size = int(np.prod(shape))
        if self.drawing:
            self.parameters.append(self.random.normal(around, 1 / np.sqrt(shape[0] + 1), size).astype(np.float32))
            return self.parameters[-1].astype(np.float64).reshape(shape)
        part, self.rest = self.rest[:size], self.rest[size:]
        return part.astype(np.float64).reshape(shape)

    def run(self, dense, keys, draw=False):
        """Probabilities of samples with dense features [n, dense_dim] and lists of keys [n][slots]."""
        self.drawing = draw
        if not draw:
            self.rest, self.next_norm = np.fromfile(self.dense, np.float32), 0
        data = self.layers[0]
        values = {data["dense"]["top"]: np.asarray(dense, np.float64)}
        first = 0
        for sparse in data["sparse"]:
            values[sparse["top"]] = [row[first:first + sparse["slot_num"]] for row in keys]
            first += sparse["slot_num"]
        for part in self.layers[1:]:
            bottoms = part["bottom"] if isinstance(part["bottom"], list) else [part["bottom"]]
            tops = part["top"] if isinstance(part["top"], list) else [part["top"]]
            if part["type"] == "BinaryCrossEntropyLoss":
                assert draw or len(self.rest) == 0
                return 1 / (1 + np.exp(-values[bottoms[0]][:, 0]))
            outputs = getattr(self, part["type"])(part, *[values[name] for name in bottoms])
            values.update(zip(tops, outputs if len(tops) > 1 else [outputs]))

    def DistributedSlotSparseEmbeddingHash(self, part, slots):
        table, dim = self.tables[part["top"]], part["sparse_embedding_hparam"]["embedding_vec_size"]
        pool = np.sum if part["sparse_embedding_hparam"]["combiner"] == "sum" else np.mean
        return np.array([[pool([table.get(key, np.zeros(dim)) for key in bag], axis=0) for bag in row] for row in slots])

    def InnerProduct(self, part, x):
        units = part["fc_param"]["num_output"]
        return x @ self.take(x.shape[1], units) + self.take(units)

    def FusedInnerProduct(self, part, x):
        return np.maximum(self.InnerProduct(part, x), 0)

    def MLP(self, part, x):
        settings = part["mlp_param"]
        for units, activation in zip(settings["num_outputs"], settings["activations"]):
            x = x @ self.take(x.shape[1], units) + self.take(units)
            x = np.maximum(x, 0) if activation == "Relu" else x
        return x

    def ReLU(self, part, x):
        return np.maximum(x, 0)

    def BatchNorm(self, part, x):
        if self.drawing:
            width = x.shape[1]
            self.statistics.append({"type": "BatchNorm", "mean": self.random.normal(0, 1, width).round(6).tolist(),
                                    "var": self.random.uniform(0.5, 2, width).round(6).tolist()})
            statistics = self.statistics[-1]
        else:
            statistics = self.statistics[self.next_norm]
            self.next_norm += 1
        scale, shift = self.take(x.shape[1], around=1), self.take(x.shape[1])
        mean, variance = np.array(statistics["mean"]), np.array(statistics["var"])
        return scale * (x - mean) / np.sqrt(variance + part["bn_param"]["eps"]) + shift

    def Dropout(self, part, x):
        return x

    def Reshape(self, part, x):
        return x.reshape(len(x), part["leading_dim"])

    def Concat(self, part, *parts):
        return np.concatenate(parts, axis=1)

    def Slice(self, part, x):
        return [x[:, begin:end] for begin, end in part["ranges"]]

    def Add(self, part, *parts):
        return sum(parts)

    def ReduceSum(self, part, x):
        return x.sum(axis=1, keepdims=True)

    def Interaction(self, part, first, vectors):
        all_vectors = np.concatenate([first[:, None, :], vectors], axis=1)
        pairs = [np.sum(all_vectors[:, i] * all_vectors[:, j], axis=1) for j in range(1, all_vectors.shape[1])
                 for i in range(j)]
        return np.concatenate([first, np.stack(pairs, axis=1), np.zeros((len(first), 1))], axis=1)

    def MultiCross(self, part, x0):
        x, width = x0, x0.shape[1]
        for _ in range(part["mc_param"]["num_layers"]):
            if self.projection:
                u, v, bias = self.take(width, self.projection), self.take(self.projection, width), self.take(width)
                x = x0 * (x @ u @ v + bias) + x
            else:
                weight, bias = self.take(width, 1), self.take(width)
                x = x0 * (x @ weight) + bias + x
        return x
