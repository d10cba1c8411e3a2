"""ChaosFlow: chaos engineering and SLA-resilience testing for LLM streaming services."""

__version__ = "0.1.0"
