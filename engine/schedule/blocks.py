"""The KV cache's budget, counted in blocks (PagedAttention's unit, arXiv 2309.06180)."""

from __future__ import annotations

from chaosflow.engine.schedule.sequence import Sequence

BLOCK_TOKENS = 16


class BlockBudget:
    """How many blocks exist and who has them. Sequences hold counts; no memory is allocated."""

    def __init__(self, total: int) -> None:
        self.total, self.used = total, 0

    @staticmethod
    def needed(tokens: int) -> int:
        return -(-tokens // BLOCK_TOKENS)

    def can_grow(self, sequence: Sequence, tokens: int) -> bool:
        """Whether ``sequence`` could hold ``tokens`` in all. Changes nothing."""
        return self.needed(tokens) - sequence.blocks <= self.total - self.used

    def grow(self, sequence: Sequence, tokens: int) -> None:
        """Give ``sequence`` the blocks for ``tokens`` in all; ask ``can_grow`` first."""
        extra = self.needed(tokens) - sequence.blocks
        if extra > 0:
            sequence.blocks += extra
            self.used += extra

    def free(self, sequence: Sequence) -> None:
        """Take back all blocks of ``sequence``; its cached tokens are gone."""
        self.used -= sequence.blocks
        sequence.blocks = sequence.computed = 0
