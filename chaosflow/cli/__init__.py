"""The command ``chaosflow``: the only place that prints and exits. One file per group of commands."""
