"""Tables of the lines that bench/peers/tables.py writes: a value per table and system, differences to the others, times."""
import json

import numpy as np

BOOSTED = ("histogram", "lightgbm", "catboost")


def show(path, part):
    found = {}  # {table: {system: [line, ...]}}
    for line in path.read_text().splitlines():
        one = json.loads(line)
        if part in one:
            found.setdefault(one["table"], {}).setdefault(one["system"], []).append(one)
    systems = sorted({system for of_table in found.values() for system in of_table})
    for key, form in ((part, "{:.4f}"), ("cpu", "{:.1f}")):
        print("\n| " + " | ".join(["table", "rows", *systems]) + " |\n|---|" + "--:|" * (len(systems) + 1))
        for table, of_table in found.items():
            cells = [form.format(np.mean([one[key] for one in of_table[name]])) if name in of_table else "" for name in systems]
            print("| " + " | ".join([table, f"{next(iter(of_table.values()))[0]['rows']:,}", *cells]) + " |")
    print()
    for ours in (name for name in systems if name.startswith("emblem")):
        compare(found, part, ours, systems)


def compare(found, part, ours, systems):
    """Mean and worst difference of a system to each of the others, and to the best booster of each table."""
    def value(table, system):
        return np.mean([one[part] for one in found[table][system]])
    for other in [name for name in systems if name != ours] + ["the best booster"]:
        names = BOOSTED if other == "the best booster" else (other,)
        differences = {table: value(table, ours) - max(value(table, name) for name in names)
                       for table in found if all(name in found[table] for name in (ours, *names))}
        if differences:
            worst = min(differences, key=differences.get)
            print(f"{ours} - {other}: mean {np.mean(list(differences.values())):+.4f}, worst {differences[worst]:+.4f} ({worst}), "
                  f"{len(differences)} tables")
