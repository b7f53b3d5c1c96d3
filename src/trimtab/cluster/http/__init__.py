"""An HTTP client with a pool of connections."""
