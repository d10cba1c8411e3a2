"""The step: from a batch of sequences to one new token each, and what it cost."""
