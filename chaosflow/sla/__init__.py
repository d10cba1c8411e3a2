"""Floor 1: pure functions from cells and objectives to verdicts."""
