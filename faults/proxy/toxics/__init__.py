"""One toxic a file; ``toxic_types`` finds them by scanning this folder."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache

from chaosflow.faults.proxy.toxic import Toxic


@cache
def toxic_types() -> dict[str, type[Toxic]]:
    """Type name -> class."""
    found: dict[str, type[Toxic]] = {}
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        module = importlib.import_module(info.name)
        for _, item in inspect.getmembers(module, inspect.isclass):
            if issubclass(item, Toxic) and item.__module__ == module.__name__:
                found[item.type] = item
    return found
