from layers import mlp
from models.mmoe import gate_of, mixed, towers


def extraction(store, scope, tasks, states, shared, config, is_last):
    def experts(name, x, count, of):
        return [mlp(store, f"{scope}.{name}.experts.{k}", x, of) for k in range(count)]

    common = experts("shared", shared, config.get("share_num"), config.get("share_expert_net"))
    own = {task: experts(task, states[task], config.get("expert_num_per_task"), config.get("task_expert_net"))
           for task in tasks}
    following = {}
    for task in tasks:
        joined = own[task] + common
        following[task] = mixed(gate_of(store, f"{scope}.{task}.gate", states[task], len(joined)), joined)
    if is_last:
        return following, None
    joined = [expert for task in tasks for expert in own[task]] + common
    return following, mixed(gate_of(store, f"{scope}.shared.gate", shared, len(joined)), joined)


def build(store, inputs, config):
    tasks = [tower.get("tower_name") for tower in config.all("task_towers")]
    shared = inputs.first_group()
    states = {task: shared for task in tasks}
    networks = config.all("extraction_networks")
    for number, network in enumerate(networks):
        is_last = number + 1 == len(networks)
        states, shared = extraction(store, "extraction." + network.get("network_name"), tasks, states, shared, network, is_last)
    return towers(store, inputs, config, [states[task] for task in tasks])
