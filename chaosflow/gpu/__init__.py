"""Between floors 0 and 1: the one seam to NVML, and the virtual GPU behind it."""
