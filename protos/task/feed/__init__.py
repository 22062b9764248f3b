"""Defines the feed that publishes and ends a deployment's tasks, and the budgets that tasks of one purpose share."""
