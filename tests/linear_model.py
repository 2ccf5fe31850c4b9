"""A linear model on standardized numbers and one-hot text, as a reference for what data hold; and metrics."""

import math

import numpy as np

MISSING = {"", "NA", "N/A", "n/a", "nan", "NaN", "NULL", "null", "None", "?"}


def number_of(text):
    try:
        value = float(text)
        return value if math.isfinite(value) else None
    except ValueError:
        return None


class Encoder:
    """Columns of text as numbers: fitted on the rows of the training."""

    MOST_WORDS = 500

    def __init__(self, rows):
        self.columns = []
        for values in zip(*rows):
            present = [text for text in values if text.strip() not in MISSING]
            numbers = [number_of(text) for text in present]
            if present and all(number is not None for number in numbers):
                mean, deviation = float(np.mean(numbers)), float(np.std(numbers))
                self.columns.append(("number", mean, deviation or 1.0))
            else:
                words, counts = np.unique(np.array(values, dtype=object).astype(str), return_counts=True)
                kept = [word for _, word in sorted(zip(-counts, words))[:self.MOST_WORDS]]
                self.columns.append(("words", {word: i for i, word in enumerate(kept)}, len(kept)))

    def matrix(self, rows):
        parts = [np.ones((len(rows), 1))]
        for column, values in zip(self.columns, zip(*rows)):
            if column[0] == "number":
                numbers = [number_of(text) for text in values]
                parts.append(np.array([[0.0 if x is None else (x - column[1]) / column[2]] for x in numbers]))
            else:
                part = np.zeros((len(rows), column[2]))
                for row, text in enumerate(values):
                    if text in column[1]:
                        part[row, column[1][text]] = 1
                parts.append(part)
        return np.hstack(parts)


def ridge(x, y, strength=1.0):
    """Weights of the squared error with a penalty, not on the first column."""
    penalty = np.full(x.shape[1], strength)
    penalty[0] = 1e-8
    return np.linalg.solve(x.T @ x + np.diag(penalty), x.T @ y)


def logistic(x, y, strength=1.0, steps=30):
    """Weights of the cross-entropy with a penalty (Newton's method)."""
    penalty = np.full(x.shape[1], strength)
    penalty[0] = 1e-8
    weights = np.zeros(x.shape[1])
    for _ in range(steps):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        step = np.linalg.solve((x.T * (p * (1 - p) + 1e-9)) @ x + np.diag(penalty), x.T @ (y - p) - penalty * weights)
        weights += step
        if np.abs(step).max() < 1e-6:
            break
    return weights


def predict(task, train, labels, test):
    """Scores of the rows of `test`: of label 1, of each class, or numbers."""
    encoder = Encoder(train)
    x, z = encoder.matrix(train), encoder.matrix(test)
    if task == "number":
        return z @ ridge(x, np.array(labels, dtype=float))
    if task == "binary":
        return z @ logistic(x, np.array(labels, dtype=float))
    labels = np.array(labels)
    return np.stack([z @ logistic(x, (labels == k).astype(float)) for k in range(labels.max() + 1)], axis=1)


def auc(labels, scores):
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    sorted_scores = np.asarray(scores)[order]
    start = 0
    for end in range(1, len(scores) + 1):
        if end == len(scores) or sorted_scores[end] != sorted_scores[start]:
            ranks[order[start:end]] = (start + end - 1) / 2
            start = end
    positive = np.asarray(labels) == 1
    count = positive.sum()
    return (ranks[positive].sum() - count * (count - 1) / 2) / (count * (len(labels) - count))


def metric(task, labels, scores):
    """AUC, accuracy or R2."""
    labels, scores = np.asarray(labels), np.asarray(scores)
    if task == "binary":
        return auc(labels, scores)
    if task == "classes":
        return float((scores.argmax(axis=1) == labels).mean())
    return 1 - ((labels - scores) ** 2).sum() / ((labels - labels.mean()) ** 2).sum()


def standard_error(task, labels, scores, draws=200):
    """Of the metric, by drawing rows again."""
    labels, scores = np.asarray(labels), np.asarray(scores)
    chance = np.random.default_rng(1)
    values = []
    while len(values) < draws:
        rows = chance.integers(0, len(labels), len(labels))
        if len(np.unique(labels[rows])) > 1:
            values.append(metric(task, labels[rows], scores[rows]))
    return float(np.std(values))
