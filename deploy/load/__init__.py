"""Load: a made-up fleet that submits to a deployment at a stated rate, and what it saw of latencies and refusals."""
