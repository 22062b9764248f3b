"""The longitudinal question, the memory of a device, and the series estimated from the rounds' counts.

A person's stream of states changes at most `changes` times. This bound makes a long horizon affordable. A strategy
sends a stream: `direct`, `signs` (with its two ways, `vector` and `sampled`) and `tree`. To add a strategy, write a
class that extends `strategy.Sending`, and add its line to `strategies`.
"""
