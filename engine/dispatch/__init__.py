"""From tokens to clients: the HTTP API, server-sent events, bounded queues per stream."""
