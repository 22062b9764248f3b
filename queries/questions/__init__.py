"""The kinds of questions, one in each module."""
