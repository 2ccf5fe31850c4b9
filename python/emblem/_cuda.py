"""Libraries of CUDA that pip installed: packages nvidia-*, which the extra [cuda] asks for."""
from __future__ import annotations

import ctypes
import glob
import os
import sys
from typing import Dict, List, Mapping, Optional

from emblem._runtime import LOG

LIBRARIES = ("libcublasLt.so.13", "libnccl.so.2")
_loaded: Dict[str, ctypes.CDLL] = {}


def _found() -> Dict[str, str]:
    """{library: the first file of this name in site-packages}"""
    return {name: files[0] for name in LIBRARIES if (files := [
        path for site in sys.path for path in sorted(glob.glob(os.path.join(glob.escape(site), "nvidia/*/lib", name)))])}


def load(device: str) -> None:
    """Loads them before the engine looks for them by name; a device that is no GPU needs none."""
    if not str(device).startswith("cuda"):
        return
    for name, path in _found().items():
        if name not in _loaded:
            try:
                _loaded[name] = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
            except OSError as error:
                LOG.warning("%s cannot be loaded: %s", path, error)


def environment(variables: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """Variables (None: of this process) with which a program finds them, too; after the folders that are named there."""
    made = dict(os.environ if variables is None else variables)
    folders: List[str] = [one for one in made.get("LD_LIBRARY_PATH", "").split(os.pathsep) if one]
    folders += [os.path.dirname(path) for path in _found().values()]
    if folders:
        made["LD_LIBRARY_PATH"] = os.pathsep.join(dict.fromkeys(folders))
    return made
