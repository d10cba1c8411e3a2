"""Floor 0: the domain types that every other part speaks; no I/O beyond files and /proc."""
