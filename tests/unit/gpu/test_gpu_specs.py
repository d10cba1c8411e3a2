"""Named GPUs."""

from __future__ import annotations

from dataclasses import fields

import pytest

from chaosflow.core.errors import UsageError
from chaosflow.gpu.specs import GPUS, GpuSpec, gpu_named


@pytest.mark.parametrize("spec", GPUS.values(), ids=lambda s: s.key)
def test_unverified_marks_name_real_fields(spec: GpuSpec) -> None:
    assert spec.unverified <= {f.name for f in fields(GpuSpec)}


@pytest.mark.parametrize("spec", GPUS.values(), ids=lambda s: s.key)
def test_a_lock_is_clamped_to_the_supported_range(spec: GpuSpec) -> None:
    assert spec.clamp_mhz(1) == spec.min_mhz
    assert spec.clamp_mhz(99_999) == spec.boost_mhz
    assert (spec.clamp_mhz(300) - spec.min_mhz) % spec.clock_step_mhz == 0


def test_memory_rate_falls_only_below_the_knee() -> None:
    h200 = GPUS["h200"]
    assert h200.memory_rate(1980) == h200.memory_rate(1300) == h200.hbm_bytes_per_s
    assert h200.memory_rate(300) == pytest.approx(132 * 32 * 300e6)


def test_unknown_gpu_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="did you mean 'h200'"):
        gpu_named("h20O")
