"""The feature groups of a model, from rows of text, parameters and tables."""

import math

import torch
import torch.nn.functional as F

from encoders import ENCODERS
from features import elements, features_of, keys, numbers, padded


class Inputs:
    """`store` has the dense parameters, `tables` the rows of tables by name; `rows` are dicts of text by column, `negatives`
    those of sampled items."""

    def __init__(self, pipeline, store, tables, rows, negatives=()):
        self.pipeline, self.store, self.tables, self.rows = pipeline, store, tables, rows
        self.model = pipeline.get("model_config")
        self.data = pipeline.get("data_config")
        self.features = features_of(pipeline)
        self.extra_losses = []  # [(name, value)]
        self.touched = {}  # table -> ids of this batch
        self.items = self  # of the rows, and sampled ones
        if negatives:
            self.items = Inputs(pipeline, store, tables, [*rows, *negatives])
            self.items.touched = self.touched

    # ---- labels and weights ----

    def column(self, name):
        return torch.tensor([float(row[name]) for row in self.rows], dtype=self.store.dtype)

    def first_label(self):
        return self.data.all("label_fields")[0]

    def label(self, name):
        return self.column(name)

    def sample_weight(self, name):
        return self.column(name)

    def first_sample_weight(self):
        fields = self.data.all("sample_weight_fields")
        return self.column(fields[0]) if fields else None

    def ids_of(self, name):
        return torch.tensor([int(self.rows[r][name].split("\x03")[0]) for r in range(len(self.rows))])

    # ---- values of features ----

    def table(self, name, rows, dim):
        return self.tables.uniform(name, (rows, dim), 0.5)

    def pooled(self, feature, table, bags, dim):
        """[bags, dim]"""
        ids, weights = padded(bags, self.store.dtype, self.store.device)
        self.touched.setdefault(table, []).append(ids[weights != 0])
        vectors = F.embedding(ids, self.table(table, feature.rows, dim))
        total = (vectors * weights[:, :, None]).sum(1)
        if feature.config.get("pooling", "sum") == "mean":
            total = total / (weights != 0).sum(1).clamp(min=1)[:, None]
        return total

    def raw(self, feature):
        return torch.tensor([numbers(row[feature.name]) for row in self.rows], dtype=self.store.dtype)

    def numeric(self, feature):
        values = self.raw(feature)
        if feature.config.has("mlp"):
            n, dim = values.shape[1], feature.dim
            return values @ self.store.normal(f"dense_embeddings.{feature.name}.0.weight", (dim, n), math.sqrt(2 / (n + dim))).T
        if feature.config.has("autodis"):
            return self.autodis(feature, values)
        return values

    def autodis(self, feature, x):
        """x [B, 1] -> [B, dim]"""
        config, name = feature.config.get("autodis"), f"dense_embeddings.{feature.name}.0"
        channels, dim = config.get("num_channels"), feature.dim
        w = self.store.normal(name + ".proj_w", (1, channels), math.sqrt(2 / (1 + channels)))
        m = self.store.normal(name + ".proj_m", (channels, channels), math.sqrt(1 / channels))
        e = self.store.normal(name + ".meta_emb", (channels, dim), 1.0)
        h = F.leaky_relu(x * w, 0.01)
        scores = (h @ m.T + config.get("keep_prob", 0.8) * h) / config.get("temperature", 0.1)
        return torch.softmax(scores, dim=1) @ e

    def bags(self, feature):
        return [keys(feature, row[feature.name]) for row in self.rows]

    def deep(self, name, suffix=""):
        feature = self.features[name]
        if not feature.is_sparse:
            return self.numeric(feature)
        return self.pooled(feature, feature.table + suffix, self.bags(feature), feature.dim)

    def wide_dim(self):
        _, config = model_of(self.model)
        return config.get("wide_embedding_dim", 4 if not self.model.has("xdeepfm") else 16)

    # ---- groups ----

    def find(self, name):
        return next(group for group in self.model.all("feature_groups") if group.get("group_name") == name)

    def has(self, name):
        return any(group.get("group_name") == name for group in self.model.all("feature_groups"))

    def group_names(self):
        return [group.get("group_name") for group in self.model.all("feature_groups")]

    def first_group(self):
        return self.group(self.group_names()[0])

    def group(self, name):
        group = self.find(name)
        suffix = "_" + group.get("embedding_name_suffix") if group.has("embedding_name_suffix") else ""
        parts = [self.deep(feature, suffix) for feature in group.all("feature_names")]
        parts += self.encoded(group, suffix)
        if self.model.has("variational_dropout") and len(parts) > 1:
            parts = self.drop(name, parts)
        return torch.cat(parts, dim=1)

    def drop(self, group, parts):
        """Variational dropout as evaluation does it."""
        config = self.model.get("variational_dropout")
        theta = self.store.normal(f"variational_dropout.{group}.0.logit_p", (1, len(parts)), 1.0)
        p = torch.sigmoid(theta[0])
        rate = config.get("regularization_lambda", 0.01)
        self.extra_losses.append((group + "_feature_p_loss", rate / len(self.rows) * (1 - p).sum()))
        return [part * (1 - p[number]) for number, part in enumerate(parts)]

    def vectors(self, name):
        """The embeddings of a group [B, N, dim]; numbers are not among them."""
        names = [feature for feature in self.find(name).all("feature_names") if self.features[feature].is_sparse]
        return torch.stack([self.deep(feature) for feature in names], dim=1)

    def wide(self, name):
        """[B, N, wide dim]"""
        out = []
        for feature_name in self.find(name).all("feature_names"):
            feature = self.features[feature_name]
            out.append(self.pooled(feature, feature.table + "_wide", self.bags(feature), self.wide_dim()))
        return torch.stack(out, dim=1)

    def encoded(self, group, suffix):
        nested = {}
        for inner in group.all("sequence_groups"):
            nested[inner.get("group_name", group.get("group_name"))] = inner
        out = []
        for encoder in group.all("sequence_encoders"):
            kind, config = encoder.only()
            source = config.get("input", next(iter(nested)))
            inner = nested[source]
            own = "_" + inner.get("embedding_name_suffix") if inner.has("embedding_name_suffix") else suffix
            query, sequence, lengths = self.sequence_of(inner, own)
            scope = f"encoders.{group.get('group_name')}.{source}"
            out.append(ENCODERS[kind](self.store, scope, query, sequence, lengths, config))
        return out

    def sequence(self, name):
        return self.sequence_of(self.find(name), "")

    def sequence_of(self, group, suffix):
        """The query [B, Dq] or None, the sequence [B, T, Ds] and its lengths [B]."""
        members = [self.features[name] for name in group.all("feature_names")]
        series = [feature for feature in members if feature.sequence_delim]
        queries = [feature for feature in members if not feature.sequence_delim]
        lengths = self.lengths(series[0])
        longest = max([1, *lengths])
        parts = [self.query(feature, suffix) for feature in queries]
        values = torch.cat([self.series(feature, suffix, longest) for feature in series], dim=2)
        return torch.cat(parts, dim=1) if parts else None, values, torch.tensor(lengths, device=self.store.device)

    def lengths(self, feature):
        return [len(elements(feature, row[feature.name])) for row in self.rows]

    def query(self, feature, suffix):
        if not feature.is_sparse:
            return self.numeric(feature)
        bags = self.bags(feature)
        if feature.config.get("value_dim", 0) == 1:
            bags = [bag[:1] for bag in bags]
        return self.pooled(feature, feature.table + suffix + "_seq", bags, feature.dim)

    def series(self, feature, suffix, longest):
        """[B, longest, n], zero beyond a row's elements."""
        texts = [elements(feature, row[feature.name])[:longest] for row in self.rows]
        slots = [(row, at) for row, parts in enumerate(texts) for at in range(len(parts))]
        flat = [part for parts in texts for part in parts]
        if feature.is_sparse:
            width = feature.dim
            values = self.pooled(feature, feature.table + suffix + "_seq", [keys(feature, part) for part in flat], width)
        else:
            width = feature.value_dim
            values = torch.tensor([numbers(part) for part in flat], dtype=self.store.dtype).view(-1, width)
        index = torch.tensor([row * longest + at for row, at in slots], dtype=torch.long)
        out = torch.zeros(len(self.rows) * longest, width, dtype=self.store.dtype)
        return out.index_add(0, index, values).view(len(self.rows), longest, width)


MODEL_FIELDS = ("dlrm", "deepfm", "wide_and_deep", "dcn_v1", "dcn_v2", "multi_tower", "multi_tower_din", "mask_net", "wukong",
                "xdeepfm", "rocket_launching", "mmoe", "ple", "dbmtl", "pepnet", "dssm", "dssm_v2", "dat", "mind")


def model_of(model):
    """The name and message of the model that model_config selects."""
    return next((name, model.get(name)) for name in MODEL_FIELDS if model.has(name))
