"""Rows of text for a pipeline, with the edges: empty bags, no elements, one, the most; a batch without positives, one without
any element, one of a single row."""

import random

from features import MULTIVALUE, features_of

BATCH, ROWS = 16, 49  # the last batch has one row
WITHOUT_POSITIVES, WITHOUT_ELEMENTS = 1, 2  # batches
LONGEST = 5


def number(rng):
    return f"{rng.uniform(-2, 2):.3f}"


def bag(feature, rng):
    if feature.config.get("weighted", False):
        return MULTIVALUE.join(f"{rng.randrange(feature.rows)}:{rng.uniform(0.2, 2):.3f}" for _ in range(rng.randrange(4)))
    if feature.value_dim == 1:
        return str(rng.randrange(feature.rows))
    return MULTIVALUE.join(str(rng.randrange(feature.rows)) for _ in range(rng.choice([0, 1, 1, 2, 3])))


def numbers_of(feature, rng):
    return MULTIVALUE.join(number(rng) for _ in range(feature.value_dim))


def length_of(row, rng):
    if row // BATCH == WITHOUT_ELEMENTS:
        return 0
    return {0: 0, 1: 1, 2: LONGEST, 3: LONGEST + 3}.get(row, rng.randrange(LONGEST + 1))


def element(feature, rng):
    if not feature.is_sparse:
        return numbers_of(feature, rng)
    return bag(feature, rng) if feature.value_dim != 1 else str(rng.randrange(feature.rows))


def value_of(feature, row, lengths, rng):
    if feature.sequence_delim:
        return feature.sequence_delim.join(element(feature, rng) for _ in range(lengths[row]))
    return bag(feature, rng) if feature.is_sparse else numbers_of(feature, rng)


def label_kind(pipeline, name):
    """Classes of a label; 0: a number."""
    model = pipeline.get("model_config")
    for field in model.fields.values():
        for message in field:
            for tower in message.all("task_towers") if hasattr(message, "all") else []:
                if tower.get("label_name") == name:
                    return 0 if tower.all("losses")[0].has("l2_loss") else max(2, tower.get("num_class", 1))
                if message.get("domain_input_name") == name:
                    return message.get("task_domain_num")
    if any(loss.has("l2_loss") for loss in model.all("losses")):
        return 0
    return max(2, model.get("num_class", 1))


def label(classes, row, rng):
    if row // BATCH == WITHOUT_POSITIVES and classes == 2:
        return "0"
    return str(rng.randrange(classes)) if classes else number(rng)


def make_rows(pipeline, seed, rows=ROWS):
    """A list of dicts of text by column."""
    rng, features, data = random.Random(seed), features_of(pipeline), pipeline.get("data_config")
    lengths = [length_of(row, rng) for row in range(rows)]
    out = []
    for row in range(rows):
        values = {}
        for name in data.all("label_fields"):
            values[name] = label(label_kind(pipeline, name), row, rng)
        for name in data.all("sample_weight_fields"):
            values[name] = f"{rng.uniform(0, 3):.3f}"
        for feature in features.values():
            values[feature.name] = value_of(feature, row, lengths, rng)
        out.append(values)
    return out


def make_negatives(pipeline, seed, rows):
    """Rows whose items are those that a sampler draws, as many for each batch of `rows`."""
    data = pipeline.get("data_config")
    if not data.has("negative_sampler"):
        return []
    return make_rows(pipeline, seed + " negatives", -(-rows // BATCH) * data.get("negative_sampler").get("num_sample"))


def csv_text(rows):
    lines = [",".join(rows[0])] + [",".join(row.values()) for row in rows]
    return "\n".join(lines) + "\n"
