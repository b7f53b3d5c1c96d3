"""`trimtab demo`."""
