#!/usr/bin/env python3
"""Prints the number of dense parameters of pipelines: tests/peers/count_parameters.py CONFIG..."""

import sys

import torch

from inputs import Inputs, model_of
from models import BUILDERS
from pbtxt import parse
from store import Store

BATCH, LENGTH = 2, 3


class Shapes(Inputs):
    """Zeros of the right widths, without tables."""

    def __init__(self, pipeline):
        super().__init__(pipeline, Store(dtype=torch.float32), None, [None] * BATCH)

    def column(self, name):
        return torch.zeros(BATCH)

    def ids_of(self, name):
        return torch.zeros(BATCH, dtype=torch.long)

    def pooled(self, feature, table, bags, dim):
        return torch.zeros(BATCH, dim)

    def bags(self, feature):
        return [[]] * BATCH

    def raw(self, feature):
        return torch.zeros(BATCH, feature.value_dim)

    def series(self, feature, suffix, longest):
        return torch.zeros(BATCH, LENGTH, feature.dim if feature.is_sparse else feature.value_dim)

    def lengths(self, feature):
        return [LENGTH] * BATCH


def count(text):
    """Dense parameters of a pipeline, and by the first part of their names."""
    inputs = Shapes(parse(text))
    name, config = model_of(inputs.model)
    BUILDERS[name](inputs.store, inputs, config)
    return inputs.store


def main():
    for path in sys.argv[1:]:
        try:
            store = count(open(path).read())
            print(f"{path}: {store.count():,}")
        except (StopIteration, RuntimeError) as error:
            print(f"{path}: {error!r}")


if __name__ == "__main__":
    main()
