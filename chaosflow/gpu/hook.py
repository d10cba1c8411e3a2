"""Run any Python tool on the virtual GPU: ``nvidia-smi``-like tools that use nvidia-ml-py.

The program is started with a ``sitecustomize`` of ours on its path. When it imports pynvml, the
virtual GPU is put where that keeps the loaded library. When it imports torch or vllm, the
substitution is taken out again and not put back: those must only ever see real GPUs.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from chaosflow.gpu.nvml import REFUSED_BESIDE
from chaosflow.gpu.state import VirtualGpuState
from chaosflow.gpu.virtual import VirtualNvml

STATE_VARIABLE = "CHAOSFLOW_VGPU_STATE"
_SITE = Path(__file__).with_name("site")


def environment_for(state: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """A copy of ``environment`` under which a Python program sees the virtual GPU of ``state``."""
    path = [str(_SITE), *filter(None, [environment.get("PYTHONPATH")])]
    return {
        **environment,
        STATE_VARIABLE: str(state.resolve()),
        "PYTHONPATH": os.pathsep.join(path),
    }


def activate_from_environment() -> None:
    """Watch for imports of pynvml; nothing without the variable, or in a process with torch or vllm."""
    if (path := os.environ.get(STATE_VARIABLE)) and not any(n in sys.modules for n in REFUSED_BESIDE):
        sys.meta_path.insert(0, _Watcher(VirtualGpuState.open(Path(path))))


class _Watcher(importlib.abc.MetaPathFinder):
    """Sees every first import; finds nothing itself but pynvml."""

    def __init__(self, gpu: VirtualGpuState) -> None:
        self._gpu = gpu
        self._binding: Any = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in REFUSED_BESIDE:
            self._withdraw(name)
        if name != "pynvml":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Substituting(spec.loader, self)
        return spec

    def substitute(self, binding: ModuleType) -> None:
        self._binding = binding
        self._binding.nvmlLib = VirtualNvml(self._gpu)

    def _withdraw(self, because: str) -> None:
        sys.meta_path.remove(self)
        if self._binding is not None:
            self._binding.nvmlLib = None
            self._binding._nvmlGetFunctionPointer_cache.clear()
        sys.stderr.write(f"chaosflow vgpu: off, this process imports {because}\n")


class _Substituting(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, watcher: _Watcher) -> None:
        self._loader, self._watcher = loader, watcher

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._watcher.substitute(module)
