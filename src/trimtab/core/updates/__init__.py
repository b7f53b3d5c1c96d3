"""The plan of the updater: candidates, checks, and decisions for every pod."""
