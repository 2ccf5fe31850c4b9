"""Matrix factorization of implicit feedback by alternating least squares (iALS), in NumPy, and metrics of full rankings."""
import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Settings:
    dim: int = 64
    unobserved: float = 0.1  # weight of the squares of all scores
    ridge: float = 0.01
    frequency: float = 1.0  # the ridge of a row grows with (its observations + unobserved * columns) to this power
    epochs: int = 12


def half_step(observed, fixed, of):
    """Vectors of the rows of `observed`, a list of the columns of each, whose vectors are `fixed`."""
    gram = of.unobserved * fixed.T @ fixed
    solved = np.empty((len(observed), of.dim))
    for row, columns in enumerate(observed):
        near = fixed[columns]
        weight = of.ridge * (len(columns) + of.unobserved * len(fixed)) ** of.frequency
        solved[row] = np.linalg.solve(gram + near.T @ near + weight * np.eye(of.dim), near.sum(0))
    return solved


def train(rows_of_users, rows_of_items, of, seed):
    """Items of each user and users of each item, as lists; returns scores [users, items]."""
    rng = np.random.default_rng(seed)
    items = rng.normal(0, 0.1 / np.sqrt(of.dim), (len(rows_of_items), of.dim))
    for _ in range(of.epochs):
        users = half_step(rows_of_users, items, of)
        items = half_step(rows_of_items, users, of)
    return half_step(rows_of_users, items, of) @ items.T


def metrics(scores, seen, chosen, k):
    """Mean recall@k and NDCG@k over users with choices; items that a user has seen are not ranked."""
    recalls, gains = [], []
    discounts = 1 / np.log2(np.arange(2, k + 2))
    for user, wanted in enumerate(chosen):
        if len(wanted) == 0:
            continue
        ranked = scores[user].copy()
        ranked[np.setdiff1d(seen[user], wanted)] = -np.inf
        hits = np.isin(np.argsort(-ranked, kind="stable")[:k], wanted)
        recalls.append(hits.sum() / len(wanted))
        gains.append(discounts[hits].sum() / discounts[:len(wanted)].sum())
    return float(np.mean(recalls)), float(np.mean(gains))
