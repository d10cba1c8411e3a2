"""Live metrics: what runs are doing, for Prometheus to scrape.

``live.py`` follows the runs of this process and keeps sums; ``families.py`` gives them names, units
and help texts; ``server.py`` answers scrapes from a thread of its own.
"""
