"""All fault atoms and probes that are installed here."""

from __future__ import annotations

from chaosflow import faults, probes
from chaosflow.core.fault import FaultAtom
from chaosflow.core.probe import Probe
from chaosflow.core.registry import Registry


def load_atoms() -> Registry[FaultAtom]:
    """Every atom of ChaosFlow and of the entry-point group ``chaosflow.faults``."""
    registry: Registry[FaultAtom] = Registry(FaultAtom, "kind", "fault")  # type: ignore[type-abstract]
    registry.scan(faults, "chaosflow.faults")
    return registry


def load_probes() -> Registry[Probe]:
    """Every probe of ChaosFlow and of the entry-point group ``chaosflow.probes``."""
    registry: Registry[Probe] = Registry(Probe, "name", "probe")  # type: ignore[type-abstract]
    registry.scan(probes, "chaosflow.probes")
    return registry
