"""`trimtab report`."""
