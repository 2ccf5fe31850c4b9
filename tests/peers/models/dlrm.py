import torch

from heads import classes_of, only_head, output
from layers import mlp
from models.dcn import cross_v2


def build(store, inputs, config):
    sparse_group = "sparse" if inputs.has("sparse") else inputs.group_names()[0]
    sparse = inputs.vectors(sparse_group)  # [B, N, d]
    vectors, first = sparse, None
    if inputs.has("dense") and sparse_group != "dense":
        first = mlp(store, "bottom", inputs.group("dense"), config.get("dense_mlp"))
        vectors = torch.cat([first[:, None, :], sparse], dim=1)
    if config.has("cross"):
        x = cross_v2(store, vectors.flatten(1), config.get("cross"))
    else:
        products = vectors @ vectors.transpose(1, 2)
        lower = torch.tril_indices(vectors.shape[1], vectors.shape[1], offset=-1)
        parts = [products[:, lower[0], lower[1]]]
        if first is not None:
            parts.insert(0, first)
        if config.get("arch_with_sparse", True):
            parts.append(sparse.flatten(1))
        x = torch.cat(parts, dim=1)
    return [only_head(inputs, output(store, "output", mlp(store, "top", x, config.get("final")), classes_of(inputs.model)))]
