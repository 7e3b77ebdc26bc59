"""● The seam between this broker and the rest of its cluster: to the controller, to a partition's leader, to a coordinator.

Each is a protocol of a few calls, with a form within this process and a form over a channel.  Start with `controller.py`.
"""
