"""Takes sealed submissions, holds them, mixes each round, and releases it to the analyzer."""
