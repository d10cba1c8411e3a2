"""Runs side by side: the history of all runs, two of them compared, and a nightly's series judged."""
