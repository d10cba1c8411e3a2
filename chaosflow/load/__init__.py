"""Floor 1: Locust and the streaming client; gevent lives only here."""
