"""The optimizers that train_config names. Rows of tables are updated where a batch has their keys."""

import torch


class SparseSgd:
    def __init__(self, config):
        self.lr = config.get("lr", 0.002)

    def update(self, row, gradient, state, step):
        return row - self.lr * gradient


class SparseAdagrad:
    def __init__(self, config):
        self.lr, self.first = config.get("lr", 0.002), config.get("initial_accumulator_value", 0.0)

    def update(self, row, gradient, state, step):
        state["sum"] = state.get("sum", self.first) + gradient**2
        return row - self.lr * gradient / (state["sum"].sqrt() + 1e-8)


class SparseRowWiseAdagrad:
    def __init__(self, config):
        self.lr = config.get("lr", 0.002)

    def update(self, row, gradient, state, step):
        state["sum"] = state.get("sum", 0.0) + (gradient**2).mean()
        return row - self.lr * gradient / (state["sum"].sqrt() + 1e-8)


class SparseAdam:
    def __init__(self, config):
        self.lr, self.beta1, self.beta2 = config.get("lr", 0.002), config.get("beta1", 0.9), config.get("beta2", 0.999)

    def update(self, row, gradient, state, step):
        state["mean"] = self.beta1 * state.get("mean", 0.0) + (1 - self.beta1) * gradient
        state["square"] = self.beta2 * state.get("square", 0.0) + (1 - self.beta2) * gradient**2
        mean = state["mean"] / (1 - self.beta1**step)
        square = state["square"] / (1 - self.beta2**step)
        return row - self.lr * mean / (square.sqrt() + 1e-8)


SPARSE = {
    "sgd_optimizer": SparseSgd, "adagrad_optimizer": SparseAdagrad, "rowwise_adagrad_optimizer": SparseRowWiseAdagrad,
    "adam_optimizer": SparseAdam,
}


def chosen(config, kinds):
    return next((kinds[name], config.get(name)) for name in kinds if config.has(name))


class TableOptimizer:
    def __init__(self, config):
        kind, settings = chosen(config, SPARSE)
        self.rule, self.states = kind(settings), {}

    @torch.no_grad()
    def step(self, tables, touched, step):
        for name, batches in touched.items():
            table = tables.parameters[name]
            for key in torch.cat(batches).unique().tolist():
                state = self.states.setdefault((name, key), {})
                gradient = torch.zeros_like(table[key]) if table.grad is None else table.grad[key]
                table[key] = self.rule.update(table[key], gradient, state, step)
            table.grad = None


def sgd(config, parameters):
    return torch.optim.SGD(parameters, config.get("lr", 0.002), momentum=config.get("momentum", 0.9),
                           weight_decay=config.get("weight_decay", 0.0))


def adagrad(config, parameters):
    return torch.optim.Adagrad(parameters, config.get("lr", 0.002), eps=config.get("eps", 1e-10),
                               initial_accumulator_value=config.get("initial_accumulator_value", 0.0))


def adam(config, parameters):
    return torch.optim.Adam(parameters, config.get("lr", 0.002), (config.get("beta1", 0.9), config.get("beta2", 0.999)),
                            config.get("eps", 1e-8))


def dense_optimizer(config, parameters):
    make, settings = chosen(config, {"sgd_optimizer": sgd, "adagrad_optimizer": adagrad, "adam_optimizer": adam})
    return make(settings, parameters)
