"""● Pipelines run as services: one file of settings each, queries that start again, figures about them, and an archive for workers.

Start reading at `command.py` (`moldau pipelines`); `known.py` names the pipelines, `settings.py` reads their files.
"""
