"""The contract between the parties: messages, tasks, keys, envelopes and typed service adapters."""
