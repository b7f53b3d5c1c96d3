"""`trimtab explain`."""
