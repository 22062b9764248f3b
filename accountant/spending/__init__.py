"""The ledger of what a task has spent over its rounds, and the budget it is held against."""
