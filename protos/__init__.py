"""Messages, tasks, keys, envelopes and typed service adapters."""
