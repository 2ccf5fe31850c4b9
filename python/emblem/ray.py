"""Ranks as actors of a Ray cluster. Ray is imported when `launch` is called.

    import emblem.ray

    def train(path):
        import emblem
        model = emblem.train(path, "pipeline.config", model_dir="/shared/model", resume=True, progress=False)
        return dict(model.history.evaluation)

    results = emblem.ray.launch(train, "/shared/rows.parquet", ranks=4)
"""
from __future__ import annotations

import os
import secrets
import socket
import time
from typing import Any, Callable, List, Optional

from emblem._runtime import LOG, Error
from emblem.launching import RANKS_FROM


class _Rank:
    """A process of a rank. Emblem is imported after its variables are set."""

    def address(self) -> tuple:
        """Where rank 0 waits for the others."""
        import ray
        with socket.socket() as probe:
            probe.bind(("", 0))
            return ray.util.get_node_ip_address(), probe.getsockname()[1]

    def host(self) -> str:
        import ray
        return ray.util.get_node_ip_address()

    def run(self, variables: dict, function: Callable, args: tuple, kwargs: dict) -> Any:
        os.environ.update(variables)
        return function(*args, **kwargs)


def launch(function: Callable, *args: Any, ranks: int, cpus_per_rank: float = 1, gpus_per_rank: float = 0,
           placement: str = "PACK", restarts: int = 0, resources: Optional[dict] = None, timeout: float = 300,
           **kwargs: Any) -> List[Any]:
    """Calls `function(*args, **kwargs)` on `ranks` actors, in which emblem.train trains on all of them together. The results, by
    rank.

    placement: Ray's strategy for the group of actors: "PACK", "SPREAD", "STRICT_PACK" or "STRICT_SPREAD". restarts: how often
    all are started again after one has failed or died; `function` then continues with `resume=True`. resources: further ones
    of each rank. timeout: seconds to wait for the resources of all ranks. Raises emblem.Error where they do not come, and the
    error of the function after the last restart."""
    import ray
    if ranks < 1:
        raise Error(f"ranks is {ranks}; expected at least 1", "invalid_argument")
    if not ray.is_initialized():
        ray.init()
    bundle = {"CPU": cpus_per_rank, **({"GPU": gpus_per_rank} if gpus_per_rank else {}), **(resources or {})}
    group = ray.util.placement_group([bundle] * ranks, strategy=placement)
    try:
        ready, _ = ray.wait([group.ready()], timeout=timeout)
        if not ready:
            raise Error(f"the cluster had no {ranks} times {bundle} within {timeout:g} s", "unavailable")
        for attempt in range(restarts + 1):
            try:
                return _run(ray, group, bundle, ranks, cpus_per_rank, gpus_per_rank, resources, function, args, kwargs)
            except ray.exceptions.RayError as error:
                if attempt == restarts:
                    raise _cause_of(error) from None
                LOG.warning("restart %d of %d: %s", attempt + 1, restarts, _in_one_line(error))
                time.sleep(min(2 ** attempt, 30))
        raise AssertionError("unreachable")
    finally:
        ray.util.remove_placement_group(group)


def _run(ray: Any, group: Any, bundle: dict, ranks: int, cpus: float, gpus: float, resources: Optional[dict],
         function: Callable, args: tuple, kwargs: dict) -> List[Any]:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
    actor = ray.remote(_Rank)
    made = [actor.options(num_cpus=cpus, num_gpus=gpus, resources=resources,
                          scheduling_strategy=PlacementGroupSchedulingStrategy(group, at)).remote() for at in range(ranks)]
    try:
        hosts = ray.get([one.host.remote() for one in made])
        address, port = ray.get(made[0].address.remote())
        shared = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": address, "MASTER_PORT": str(port), RANKS_FROM: "torchrun",
                  "EMBLEM_JOB_SECRET": secrets.token_hex(16)}
        local: dict = {}
        pending = []
        for rank, one in enumerate(made):
            place = local.get(hosts[rank], 0)
            local[hosts[rank]] = place + 1
            variables = {**shared, "RANK": str(rank), "LOCAL_RANK": str(place), "LOCAL_WORLD_SIZE": str(hosts.count(hosts[rank])),
                         "EMBLEM_THREADS": str(max(1, int(cpus)))}
            pending.append(one.run.remote(variables, function, args, kwargs))
        left = list(pending)
        while left:  # the first that fails ends all
            done, left = ray.wait(left)
            ray.get(done)
        return ray.get(pending)
    finally:
        for one in made:
            ray.kill(one)


def _in_one_line(error: BaseException) -> str:
    return str(_cause_of(error)).strip().splitlines()[-1] if str(error).strip() else type(error).__name__


# The error of the function, where it raised one; else that an actor died.
def _cause_of(error: BaseException) -> BaseException:
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        return cause
    lines = str(error).strip().splitlines()
    return Error(f"a rank ended: {lines[0] if lines else type(error).__name__}", "unavailable")
