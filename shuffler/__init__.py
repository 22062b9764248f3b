"""Accepts sealed submissions, stores and mixes each round, and releases it to the analyzer."""
