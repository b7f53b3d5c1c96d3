"""The HTTPS server of the webhook."""
