"""Validation of autoscalers, field by field."""
