"""The questions that a task can ask, and the randomizers of their answers; each kind is a class."""
