"""The parts that every long-running process shares: settings, logs, metrics, ports, stores and task files."""
