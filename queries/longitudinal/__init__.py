"""The question, how a device remembers, and how the rounds' counts become a series.

Two people's streams of states differ in at most `changes` places, which is what makes a long horizon affordable. How a
stream is sent is a strategy, each a module with one class: `direct`, and `levels` with its two ways, `vector` and
`sampled`. A new strategy is a class of the protocol `strategy.Strategy` and its line in `strategies`.
"""
