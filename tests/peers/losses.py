"""Losses by row, and the weights of tasks."""

import torch
import torch.nn.functional as F


def binary_cross_entropy(logits, labels, config, sessions):
    smoothing = config.get("label_smoothing", 0.0)
    targets = labels * (1 - smoothing) + smoothing / 2
    return F.binary_cross_entropy_with_logits(logits[:, 0], targets, reduction="none")


def softmax_cross_entropy(logits, labels, config, sessions):
    smoothing = config.get("label_smoothing", 0.0)
    if smoothing == 0:
        return F.cross_entropy(logits, labels.long(), reduction="none")
    log_p = torch.log_softmax(logits, dim=1)
    chosen = log_p.gather(1, labels.long()[:, None])[:, 0]
    return -(1 - smoothing) * chosen - smoothing * log_p.mean(1)


def l2_loss(values, labels, config, sessions):
    return (values[:, 0] - labels) ** 2


def binary_focal_loss(logits, labels, config, sessions):
    gamma, alpha = config.get("gamma", 2.0), config.get("alpha", 0.5)
    p = torch.sigmoid(logits[:, 0]).detach()
    factor = alpha * labels * (1 - p) ** gamma + (1 - alpha) * (1 - labels) * p**gamma
    return factor * F.binary_cross_entropy_with_logits(logits[:, 0], labels, reduction="none")


def jrc_loss(logits, labels, config, sessions):
    alpha = config.get("alpha", 0.5)
    ce = F.cross_entropy(logits, labels.long(), reduction="none")
    other = (sessions[:, None] == sessions[None, :]) & (labels[:, None] != labels[None, :])  # [i, j]
    own = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    scores = torch.where(labels[:, None] > 0, logits[None, :, 1], logits[None, :, 0])  # [i, j]: row j as row i sees it
    ge = torch.logsumexp(scores.masked_fill(~(other | own), -torch.inf), dim=1) - scores.diagonal()
    return alpha * ce + (1 - alpha) * ge


LOSSES = {
    "binary_cross_entropy": binary_cross_entropy, "softmax_cross_entropy": softmax_cross_entropy, "l2_loss": l2_loss,
    "binary_focal_loss": binary_focal_loss, "jrc_loss": jrc_loss,
}


def over_mean(weights):
    mean = weights.mean()
    return torch.where(mean == 0, torch.zeros_like(weights), weights / torch.where(mean == 0, torch.ones_like(mean), mean))


def task_weights(tower, inputs):
    """The weight of each row in the losses of a tower, or None: all 1."""
    if not any(tower.has(name) for name in ("sample_weight_name", "weight", "task_space_indicator_label")):
        return None
    weights = torch.ones_like(inputs.label(inputs.first_label()))
    if tower.has("sample_weight_name"):
        weights = weights * inputs.sample_weight(tower.get("sample_weight_name"))
    if tower.has("task_space_indicator_label"):
        inside = inputs.label(tower.get("task_space_indicator_label")) > 0
        weights = weights * torch.where(inside, tower.get("in_task_space_weight", 1.0), tower.get("out_task_space_weight", 1.0))
    return tower.get("weight", 1.0) * over_mean(weights)


def loss_terms(head, inputs):
    """[(name, value)] of a head's losses."""
    suffix = "_" + head.name if head.name else ""
    terms = []
    for loss in head.losses:
        kind, config = loss.only()
        sessions = inputs.ids_of(config.get("session_name")) if config.has("session_name") else None
        rows = LOSSES[kind](head.logits, head.labels, config, sessions)
        terms.append((kind + suffix, (rows if head.weights is None else head.weights * rows).mean()))
    return terms
