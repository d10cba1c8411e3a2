"""Name -> class, filled by scanning a package handed in from above, and by entry points."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from importlib.metadata import entry_points
from types import ModuleType
from typing import Generic, TypeVar

from chaosflow.core.errors import UsageError
from chaosflow.core.units import did_you_mean

T = TypeVar("T")


class Registry(Generic[T]):
    """The concrete classes of one kind of plug-in, by name.

    ``name_attribute`` is the class attribute that names it (``kind`` or ``name``).
    """

    def __init__(self, base: type[T], name_attribute: str, what: str) -> None:
        self._base, self._attribute, self._what = base, name_attribute, what
        self._classes: dict[str, type[T]] = {}
        self._aliases: dict[str, str] = {}

    def scan(self, package: ModuleType, entry_point_group: str) -> None:
        """Import every module below ``package`` and every entry point; register what they define."""
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if found.name.rsplit(".", 1)[-1].startswith("__"):
                continue  # __main__ modules run something
            self._register_all(importlib.import_module(found.name))
        for point in entry_points(group=entry_point_group):
            self._register(point.load())

    def _register_all(self, module: ModuleType) -> None:
        for _, item in inspect.getmembers(module, inspect.isclass):
            if (
                issubclass(item, self._base)
                and item.__module__ == module.__name__
                and not inspect.isabstract(item)
            ):
                self._register(item)

    def _register(self, item: type[T]) -> None:
        name: str = getattr(item, self._attribute)
        if (known := self._classes.get(name)) not in (None, item):
            raise UsageError(
                f"{self._what} {name}", f"defined twice: {known} and {item}", "uninstall one of the plug-ins"
            )
        self._classes[name] = item
        for alias in getattr(item, "aliases", ()):
            self._aliases[alias] = name

    def get(self, name: str) -> type[T]:
        """The class of that name or alias; UsageError with a suggestion when there is none."""
        name = self._aliases.get(name, name)
        if name not in self._classes:
            hint = (
                did_you_mean(name, [*self._classes, *self._aliases])
                or f"chaosflow list {self._what}s shows all"
            )
            raise UsageError(f"{self._what} {name!r}", f"unknown {self._what} type", hint)
        return self._classes[name]

    def names(self) -> list[str]:
        return sorted(self._classes)

    def __iter__(self) -> Iterator[type[T]]:
        return (self._classes[name] for name in self.names())
