import torch

from heads import classes_of, output, tower_head
from layers import activate, linear, mlp


def gate(store, scope, z, hidden, width, gamma):
    h = torch.relu(linear(store, scope + ".0", z, hidden))
    return gamma * torch.sigmoid(linear(store, scope + ".1", h, width))


def epnet(store, x, domain, config):
    hidden = config.get("epnet_hidden_unit", x.shape[1])
    z = torch.cat([domain, x.detach()], dim=1)
    return x * gate(store, "epnet", z, hidden, x.shape[1], config.get("epnet_gamma", 2.0))


def ppnet(store, scope, x, uia, config):
    z, y = torch.cat([uia, x.detach()], dim=1), x
    for number, units in enumerate(config.all("ppnet_hidden_units")):
        name = f"{scope}.{number}"
        y = activate(store, name, linear(store, name, y, units), config.get("ppnet_activation", "nn.ReLU"))
        y = y * gate(store, f"{scope}.gates.{number}", z, units, units, config.get("ppnet_gamma", 2.0))
    return y


def of_domain(values, domains):
    """values [B, domains, classes]; each row's own."""
    return values.gather(1, domains.long()[:, None, None].expand(-1, 1, values.shape[2]))[:, 0]


def build(store, inputs, config):
    x = inputs.group("all")
    if inputs.has("domain"):
        x = epnet(store, x, inputs.group("domain"), config)
    uia = inputs.group("uia") if inputs.has("uia") else None
    domains = config.get("task_domain_num", 1) if config.has("domain_input_name") else 1
    heads = []
    for tower in config.all("task_towers"):
        name = tower.get("tower_name")
        y = x if uia is None else ppnet(store, f"ppnet.{name}", x, uia, config)
        logits = []
        for domain in range(domains):
            scope = f"{name}_{domain}" if config.has("domain_input_name") else name
            hidden = mlp(store, f"towers.{scope}", y, tower.get("mlp"))
            logits.append(output(store, f"output.{scope}", hidden, classes_of(tower)))
        chosen = logits[0]
        if domains > 1:
            chosen = of_domain(torch.stack(logits, dim=1), inputs.label(config.get("domain_input_name")))
        heads.append(tower_head(inputs, tower, chosen))
        heads[-1].outputs = torch.cat(logits, dim=1)
    return heads
