"""Usage of containers: samples, aggregates, what is kept and what is saved."""
