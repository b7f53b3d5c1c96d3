"""The checks of a plan: one list, which explanations run to the end."""
