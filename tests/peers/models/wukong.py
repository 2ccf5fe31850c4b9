import math

import torch

from heads import classes_of, only_head, output
from layers import layer_norm, linear, mlp


def mix(store, name, x, count):
    """W^T X over the vectors of x [B, N, D]: [B, count, D]."""
    w = store.uniform(name + ".weight", (x.shape[1], count), math.sqrt(6 / count))
    return torch.einsum("bnd,nm->bmd", x, w)


def products(store, name, x, compressed):
    """X (X^T Y) [B, N, K]."""
    y = store.uniform(name + ".weight", (x.shape[1], compressed), math.sqrt(6 / compressed))
    return x @ (x.transpose(1, 2) @ y)


def layer(store, scope, x, config):
    batch, count, dim = x.shape
    lcb, fmb = config.get("lcb_feature_num"), config.get("fmb_feature_num")
    linear_part = mix(store, scope + ".linear.0", x, lcb)
    flat = products(store, scope + ".products.0", x, config.get("compressed_feature_num", 16)).flatten(1)
    hidden = mlp(store, scope + ".mlp", layer_norm(store, scope + ".norm.0", flat), config.get("feature_num_mlp"))
    fm_part = linear(store, scope + ".vectors.0", hidden, fmb * dim).view(batch, fmb, dim)
    rest = x if count == lcb + fmb else mix(store, scope + ".residual.0", x, lcb + fmb)
    return layer_norm(store, scope + ".output_norm.0", torch.cat([fm_part, linear_part], dim=1) + rest)


def build(store, inputs, config):
    group = "sparse" if inputs.has("sparse") else inputs.group_names()[0]
    x = inputs.vectors(group)
    if inputs.has("dense") and group != "dense":
        dense = mlp(store, "bottom", inputs.group("dense"), config.get("dense_mlp"))
        x = torch.cat([dense[:, None, :], x], dim=1)
    for number, of in enumerate(config.all("wukong_layers")):
        x = layer(store, f"layers.{number}", x, of)
    x = mlp(store, "final", x.flatten(1), config.get("final"))
    return [only_head(inputs, output(store, "output", x, classes_of(inputs.model)))]
