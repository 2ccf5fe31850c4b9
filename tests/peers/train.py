"""A pipeline's model, trained on rows of text."""

import torch

from inputs import Inputs, model_of
from losses import loss_terms
from models import BUILDERS
from optimizers import TableOptimizer, dense_optimizer
from store import Store


class Trainer:
    """In fp64: what is left of differences is the rounding of whoever is compared."""

    def __init__(self, pipeline, rows, batch, seed=1, negatives=()):
        self.pipeline, self.rows, self.batch = pipeline, rows, batch
        self.negatives = negatives  # as many for each batch
        self.store, self.tables = Store(seed), Store(seed + 1)
        self.forward(0)  # creates parameters
        self.store.perturb(0.1)
        for part in (self.store, self.tables):
            with torch.no_grad():
                for values in [*part.parameters.values(), *part.statistics.values()]:
                    values.copy_(values.float().double())
        for statistic, values in self.store.statistics.items():
            values.fill_(1.0 if statistic.endswith("var") else 0.0)
        train = pipeline.get("train_config")
        self.table_optimizer = TableOptimizer(train.get("sparse_optimizer"))
        self.optimizer = dense_optimizer(train.get("dense_optimizer"), list(self.store.parameters.values()))
        self.steps = 0

    def batches(self):
        return -(-len(self.rows) // self.batch)

    def forward(self, number):
        """Heads and loss terms of a batch; batches repeat."""
        number %= self.batches()
        begin, each = number * self.batch, len(self.negatives) // self.batches()
        inputs = Inputs(self.pipeline, self.store, self.tables, self.rows[begin:begin + self.batch],
                        self.negatives[number * each:(number + 1) * each])
        name, config = model_of(self.pipeline.get("model_config"))
        heads = BUILDERS[name](self.store, inputs, config)
        terms = [term for head in heads for term in loss_terms(head, inputs)] + inputs.extra_losses
        return inputs, heads, terms

    def evaluate(self, number):
        self.store.training = False
        with torch.no_grad():
            _, heads, terms = self.forward(number)
        self.store.training = True
        return {head.name: head.logits if head.outputs is None else head.outputs for head in heads}, dict(terms)

    def step(self):
        """Returns the loss and its terms."""
        inputs, _, terms = self.forward(self.steps)
        loss = sum(value for _, value in terms)
        self.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        self.steps += 1
        self.optimizer.step()
        self.table_optimizer.step(self.tables, inputs.touched, self.steps)
        return float(loss.detach()), {name: float(value.detach()) for name, value in terms}
