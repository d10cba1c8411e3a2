"""Between floors 0 and 1: processes, cgroups, namespaces of this host, through /proc and /sys."""
