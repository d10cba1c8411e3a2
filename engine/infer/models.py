"""Named model sizes for the roofline (shapes from the models' published config.json)."""

from __future__ import annotations

from dataclasses import dataclass

from chaosflow.core.errors import UsageError
from chaosflow.core.units import did_you_mean

_BYTES_PER_VALUE = 2  # bf16 weights and cache


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Shape of one decoder of the Llama kind (grouped-query attention, gated MLP)."""

    key: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    context_tokens: int
    tied: bool = False
    """The output head is the embedding table."""

    @property
    def attention_weights(self) -> int:
        """Values in all Q, K, V and output projections."""
        return self.layers * self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)

    @property
    def projection_weights(self) -> int:
        """Values in all MLPs, and in the output head."""
        return self.layers * 3 * self.hidden * self.intermediate + self.head_weights

    @property
    def head_weights(self) -> int:
        return self.hidden * self.vocabulary

    @property
    def weight_bytes(self) -> int:
        """All of it in memory, the embedding table included (norms left out)."""
        embedding = 0 if self.tied else self.head_weights
        return _BYTES_PER_VALUE * (self.attention_weights + self.projection_weights + embedding)

    @property
    def kv_bytes_per_token(self) -> int:
        return 2 * self.layers * self.kv_heads * self.head_dim * _BYTES_PER_VALUE


MODELS: dict[str, ModelSpec] = {
    spec.key: spec
    for spec in (
        ModelSpec("llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, 131072, tied=True),
        ModelSpec("llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 4096),
        ModelSpec("mistral-7b", 32, 4096, 32, 8, 128, 14336, 32000, 32768),
        ModelSpec("qwen2-7b", 28, 3584, 28, 4, 128, 18944, 152064, 32768),
        ModelSpec("llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, 131072),
        ModelSpec("llama-3.3-70b", 80, 8192, 64, 8, 128, 28672, 128256, 131072),
    )
}


def model_named(key: str) -> ModelSpec:
    """The model of that name; UsageError with a suggestion when there is none."""
    if key not in MODELS:
        hint = did_you_mean(key, MODELS) or f"known: {', '.join(MODELS)}"
        raise UsageError(f"model {key!r}", "no such model size", hint)
    return MODELS[key]
