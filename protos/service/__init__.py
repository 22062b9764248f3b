"""What the processes of both services share: settings files, logs, ports, and the tasks they are given.

Nothing here is sent or signed; a device loads none of it.
"""
