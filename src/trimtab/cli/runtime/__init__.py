"""Processes: health, pages, logs, workers, connections."""
