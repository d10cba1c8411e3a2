"""Which sequences take part in the next step: admission, KV budget, batching, preemption."""
