"""Trained parameters and statistics by name. They are created where a layer first asks for them."""

import math

import torch


class Store:
    """`training` says which phase layers are in."""

    def __init__(self, seed=1, dtype=torch.float64, device="cpu"):
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype, self.device = dtype, device
        self.parameters, self.statistics = {}, {}
        self.training = True

    def uniform(self, name, shape, bound):
        return self.parameter(name, lambda: (torch.rand(shape, generator=self.generator) * 2 - 1) * bound)

    def normal(self, name, shape, deviation):
        return self.parameter(name, lambda: torch.randn(shape, generator=self.generator) * deviation)

    def constant(self, name, shape, value):
        return self.parameter(name, lambda: torch.full(shape, float(value)))

    def parameter(self, name, initial):
        if name not in self.parameters:
            self.parameters[name] = initial().to(self.device, self.dtype).requires_grad_()
        return self.parameters[name]

    def statistic(self, name, shape, value):
        if name not in self.statistics:
            self.statistics[name] = torch.full(shape, float(value), dtype=self.dtype, device=self.device)
        return self.statistics[name]

    def count(self):
        return sum(parameter.numel() for parameter in self.parameters.values())

    def perturb(self, deviation):
        """Moves parameters off special values (0, 1), where a wrong formula could go unnoticed."""
        with torch.no_grad():
            for parameter in self.parameters.values():
                noise = torch.randn(parameter.shape, generator=self.generator)
                parameter += (noise * deviation).to(self.device, self.dtype)


def torch_bound(fan_in):
    return 1 / math.sqrt(fan_in)
