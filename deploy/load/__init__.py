"""Made-up devices that submit to a deployment at a stated rate, and what it saw of latencies and refusals."""
