"""What a boolean that changes over time costs under each strategy, which is best, and the paper's own bound."""
