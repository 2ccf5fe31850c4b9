"""Random batches on a device for the pipelines of rank_configs.py, and the feature groups of a model over them.

All tables of one width are rows of one tensor, so that a step has one lookup for rows of the batch and one for elements of
histories, each with one update. Histories have lengths between 0 and the limit, in the mean half of it."""

import torch

from features import features_of
from inputs import Inputs


def power_law(rows, shape, generator, device, exponent=1.05):
    u = torch.rand(shape, dtype=torch.float64, generator=generator, device=device)
    power = 1.0 - exponent
    keys = torch.floor((1.0 + u * ((rows + 1.0) ** power - 1.0)) ** (1.0 / power)).long() - 1
    return keys.clamp_(0, rows - 1)


class Uses:
    """Which columns of the lookups a pipeline's features are."""

    def __init__(self, pipeline, wide_dim):
        features = features_of(pipeline)
        model = pipeline.get("model_config")
        self.flat, self.wide, self.query, self.series = [], [], [], []
        for group in model.all("feature_groups"):
            kind = group.get("group_type", "DEEP")
            nested = [group] if kind == "SEQUENCE" else group.all("sequence_groups")
            for inner in nested:
                for name in inner.all("feature_names"):
                    to = self.series if features[name].sequence_delim else self.query
                    to.append(name) if name not in to else None
            if kind == "SEQUENCE":
                continue
            for name in group.all("feature_names"):
                to = self.wide if kind == "WIDE" else self.flat
                if features[name].is_sparse and name not in to:
                    to.append(name)
        self.numbers = [name for name, feature in features.items() if not feature.is_sparse]
        self.features, self.wide_dim = features, wide_dim
        self.labels = pipeline.get("data_config").all("label_fields")

    def first_rows(self, names):
        """The first row of each table in the tensor of all, and their number."""
        starts, total = [], 0
        for name in names:
            starts.append(total)
            total += self.features[name].rows
        return starts, total


def make_batches(pipeline, uses, count, seed, device):
    """A list of dicts of tensors; equal shapes in all, so that a captured step fits every one."""
    generator = torch.Generator(device).manual_seed(seed)
    rows = pipeline.get("data_config").get("batch_size")
    batches, longest = [], max([uses.features[name].max_length for name in uses.series], default=0)
    for _ in range(count):
        batch = {"labels": (torch.rand(rows, len(uses.labels), generator=generator, device=device) < 0.2).float()}
        if uses.numbers:
            batch["numbers"] = torch.randn(rows, len(uses.numbers), generator=generator, device=device)
        for kind in ("flat", "wide", "query"):
            names = getattr(uses, kind)
            if names:
                starts, _ = uses.first_rows(names)
                columns = [power_law(uses.features[name].rows, (rows,), generator, device) + start for name, start in zip(names, starts)]
                batch[kind] = torch.stack(columns, dim=1)
        if uses.series:
            lengths = torch.randint(0, longest + 1, (rows,), generator=generator, device=device)
            starts, padding = uses.first_rows(uses.series)
            columns = [power_law(uses.features[name].rows, (rows, longest), generator, device) + start
                       for name, start in zip(uses.series, starts)]
            keys = torch.stack(columns, dim=2)
            beyond = torch.arange(longest, device=device)[None, :] >= lengths[:, None]
            batch["series"] = keys.masked_fill(beyond[:, :, None], padding)  # the last row is 0 and stays so
            batch["lengths"] = lengths
        batches.append(batch)
    return batches


def make_jagged(batches):
    """Elements of all rows one after the other, in the size of the fullest batch; what is beyond a batch's elements belongs to
    an additional row."""
    most = max(int(batch["lengths"].sum()) for batch in batches)
    most = -(-most // 1024) * 1024
    for batch in batches:
        rows, longest, count = batch["series"].shape
        inside = torch.arange(longest, device=batch["lengths"].device)[None, :] < batch["lengths"][:, None]
        elements = int(inside.sum())
        owner = torch.full((most,), rows, dtype=torch.long, device=inside.device)
        owner[:elements] = inside.nonzero()[:, 0]
        keys = torch.full((most, count), int(batch["series"].max()), dtype=torch.long, device=inside.device)
        keys[:elements] = batch["series"][inside]
        batch["series"], batch["owner"] = keys, owner
    return batches


class DeviceInputs(Inputs):
    """Of vectors that were looked up: {"flat": [B, n, dim], ...}."""

    def __init__(self, pipeline, uses, store, batch, vectors):
        super().__init__(pipeline, store, None, [None])
        self.uses, self.batch, self.vectors_of = uses, batch, vectors

    def label(self, name):
        return self.batch["labels"][:, self.uses.labels.index(name)]

    def first_sample_weight(self):
        return None

    def deep(self, name, suffix=""):
        if name in self.uses.numbers:
            at = self.uses.numbers.index(name)
            return self.batch["numbers"][:, at:at + 1]
        return self.vectors_of["flat"][:, self.uses.flat.index(name)]

    def group(self, name):
        group = self.find(name)
        members = group.all("feature_names")
        if members == self.uses.flat:  # all of a lookup: no pieces to join
            parts = [self.vectors_of["flat"].flatten(1)]
        elif members == self.uses.numbers + self.uses.flat:
            parts = [self.batch["numbers"], self.vectors_of["flat"].flatten(1)]
        elif members == self.uses.numbers:
            parts = [self.batch["numbers"]]
        else:
            parts = [self.deep(feature) for feature in members]
        return torch.cat([*parts, *self.encoded(group, "")], dim=1)

    def vectors(self, name):
        return self.vectors_of["flat"]

    def wide(self, name):
        return self.vectors_of["wide"]

    def sequence_of(self, group, suffix):
        lengths = self.batch["owner"] if "owner" in self.batch else self.batch["lengths"]
        return self.vectors_of["query"].flatten(1), self.vectors_of["series"].flatten(-2), lengths
