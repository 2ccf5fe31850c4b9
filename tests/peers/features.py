"""The features of a pipeline, and their values in rows of text. fg_mode is FG_NONE: columns hold final values."""

import dataclasses

import torch

from pbtxt import Message

MULTIVALUE = "\x03"


@dataclasses.dataclass
class Feature:
    name: str
    config: Message
    is_id: bool
    sequence_delim: str = ""  # "": a value per row
    max_length: int = 0

    @property
    def dim(self):
        return self.config.get("embedding_dim", 0)

    @property
    def value_dim(self):
        """Of an id: 0 is any number of values."""
        return self.config.get("value_dim", 1 if not self.is_id or self.sequence_delim else 0)

    @property
    def is_sparse(self):
        return self.is_id or self.config.has("boundaries")

    @property
    def rows(self):
        if self.config.has("boundaries"):
            return len(self.config.all("boundaries")) + 1
        for name in ("num_buckets", "hash_bucket_size"):
            if self.config.has(name):
                return self.config.get(name)
        return len(self.config.all("vocab_list")) + 2

    @property
    def table(self):
        return self.config.get("embedding_name", self.name + "_emb")


def features_of(pipeline):
    out = {}

    def add(feature):
        out[feature.name] = feature

    for entry in pipeline.all("feature_configs"):
        kind, config = entry.only()
        if kind == "sequence_feature":
            prefix = config.get("sequence_name") + "__"
            for member in config.all("features"):
                kind, inner = member.only()
                add(Feature(prefix + inner.get("feature_name"), inner, kind == "id_feature",
                            config.get("sequence_delim", ";"), config.get("sequence_length", 0)))
        elif kind.startswith("sequence_"):
            add(Feature(config.get("feature_name"), config, kind == "sequence_id_feature",
                        config.get("sequence_delim", ";"), config.get("sequence_length", 0)))
        else:
            add(Feature(config.get("feature_name"), config, kind == "id_feature"))
    return out


def numbers(text):
    return [float(value) for value in text.split(MULTIVALUE)] if text else []


def elements(feature, text):
    """The elements of a sequence as text. sequence_length is for FG_DAG: encoded sequences are read as they are."""
    return text.split(feature.sequence_delim) if text else []


def keys(feature, text):
    """[(id, weight)] of a bag."""
    out = []
    for value in text.split(MULTIVALUE) if text else []:
        key, _, weight = value.partition(":")
        out.append((int(key), float(weight) if weight else 1.0))
    return out


def padded(bags, dtype, device):
    """Ids and weights [n, longest bag]; the weight of padding is 0."""
    width = max([1, *map(len, bags)])
    ids = [[key for key, _ in bag] + [0] * (width - len(bag)) for bag in bags]
    weights = [[weight for _, weight in bag] + [0.0] * (width - len(bag)) for bag in bags]
    return (torch.tensor(ids, dtype=torch.long, device=device).view(-1, width),
            torch.tensor(weights, dtype=dtype, device=device).view(-1, width))
