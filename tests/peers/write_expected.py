#!/usr/bin/env python3
"""Writes what Emblem's models must compute, by an independent PyTorch implementation: tests/peers/expected/NAME.config, .csv
(rows), .negatives.csv (sampled items) and .safetensors (parameters before and after training, outputs, losses). src/train/expected_values_test.cc compares.

  tests/peers/write_expected.py [NAME ...]
"""

import pathlib
import sys

import torch
from safetensors.torch import save_file

import cases
from inputs import model_of
from pbtxt import parse
from rows import BATCH, csv_text, make_negatives, make_rows
from train import Trainer

OUT = pathlib.Path(__file__).parent / "expected"
STEPS = 20


def tensors_of(trainer, prefix):
    out = {f"{prefix}.{name}": values for name, values in trainer.store.parameters.items()}
    out |= {f"{prefix}.statistics.{name}": values for name, values in trainer.store.statistics.items()}
    out |= {f"{prefix}.tables.{name}": values for name, values in trainer.tables.parameters.items()}
    return {name: values.detach().clone() for name, values in out.items()}


def outputs_of(trainer, prefix):
    """Of every batch, one after the other, as evaluation computes them."""
    batches = [trainer.evaluate(number)[0] for number in range(trainer.batches())]
    return {f"{prefix}.logits.{head}".rstrip("."): torch.cat([batch[head] for batch in batches]) for head in batches[0]}


def adds_to_all_scores(name, trainer):
    """Whether it adds the same to all scores of a softmax, so that it has no gradient: the bias of DIN's scores, of keys, of
    items whose scores are inner products."""
    parameter = trainer.store.parameters.get(name.removeprefix("last."))
    _, model = model_of(trainer.pipeline.get("model_config"))
    if name == "last.item_tower.output.0.bias" and model.get("similarity") != "COSINE":
        return True
    return name.endswith(".bias") and (".key." in name or (("encoders." in name or "din_towers." in name) and parameter.numel() == 1))


def is_alive(trainer, first):
    """Whether training changed every parameter: where ReLUs are dead a wrong formula would go unnoticed."""
    return all((values != first[name.replace("last.", "first.", 1)]).any() for name, values in tensors_of(trainer, "last").items()
               if not adds_to_all_scores(name, trainer))


def values_of(text, rows, negatives):
    """From the first seed with which all of the model takes part."""
    for seed in range(1, 100):
        values = values_with(text, rows, negatives, seed)
        if values is not None:
            return values
    sys.exit(f"no seed with which all parameters are trained:\n{text}")


def values_with(text, rows, negatives, seed):
    trainer = Trainer(parse(text), rows, BATCH, seed, negatives)
    steps = STEPS if "variational_dropout" not in text else 0  # its training draws at random
    values = tensors_of(trainer, "first") | outputs_of(trainer, "first")
    losses, terms = [], {}
    for _ in range(steps):
        loss, of_step = trainer.step()
        losses.append(loss)
        for name, value in of_step.items():
            terms.setdefault(name, []).append(value)
    if steps and not is_alive(trainer, values):
        return None
    values |= tensors_of(trainer, "last") | outputs_of(trainer, "last")
    values["loss"] = torch.tensor(losses, dtype=torch.float64)
    values |= {f"loss.{name}": torch.tensor(of, dtype=torch.float64) for name, of in terms.items()}
    return {name: value.float().contiguous() for name, value in values.items()}


def main():
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)
    texts = cases.all_cases()
    for name in sys.argv[1:] or texts:
        rows = make_rows(parse(texts[name]), name)
        if "use_bn" in texts[name] or "Dice" in texts[name]:
            rows = rows[:2 * BATCH]  # batch statistics of no element or one row are not defined
        (OUT / f"{name}.config").write_text(texts[name])
        (OUT / f"{name}.csv").write_text(csv_text(rows))
        negatives = make_negatives(parse(texts[name]), name, len(rows))
        if negatives:
            (OUT / f"{name}.negatives.csv").write_text(csv_text(negatives))
        values = values_of(texts[name], rows, negatives)
        save_file(values, OUT / f"{name}.safetensors")
        (OUT / f"{name}.safetensors").chmod(0o644)
        print(f"{name}: {len(values)} tensors, loss {values['loss'][0]:.4f} -> {values['loss'][-1]:.4f}" if len(values["loss"])
              else f"{name}: {len(values)} tensors")
    if not sys.argv[1:]:
        for path in OUT.iterdir():
            if path.name.split(".")[0] not in texts:
                path.unlink()


if __name__ == "__main__":
    main()
