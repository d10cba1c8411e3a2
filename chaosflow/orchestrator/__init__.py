"""Floor 2: the life of a run."""
