"""From counts to estimates: debiasing, confidence bands and tests."""
