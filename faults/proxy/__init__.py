"""The fault proxy: a process of its own (``python -m chaosflow.faults.proxy``) between load and target.

``client`` is all that the rest of ChaosFlow uses of it, over a Unix socket.
"""
