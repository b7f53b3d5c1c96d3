"""`trimtab checkpoint`."""
