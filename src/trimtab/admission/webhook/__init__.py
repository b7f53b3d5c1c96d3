"""The webhook's registration, keys and certificates, and its self-test."""
