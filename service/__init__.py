"""What every long-running process needs: settings files, logs, metrics, ports, and the tasks it is given."""
