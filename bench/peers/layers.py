"""Shared layers of the PyTorch benchmarks."""

from torch import nn


def mlp(sizes, relu_after_last):
    layers = []
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1]))
        if relu_after_last or i + 2 < len(sizes):
            layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)
