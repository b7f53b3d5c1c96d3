"""Guards that hold updates back: budgets, rates, brakes, and updates without effect."""
