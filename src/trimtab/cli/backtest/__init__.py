"""`trimtab backtest`."""
