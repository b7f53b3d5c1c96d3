"""The backtest: what a policy would have done to workloads whose usage was recorded."""
