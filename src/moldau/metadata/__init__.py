"""The cluster's metadata: one model, replayed from the metadata log.

Start reading at `image.py` (the model) and `delta.py` (how records change it); then a decision, say `producer_ids.py`; then
`controller.py`, which runs decisions, and `loader.py`, which publishes committed changes.  docs/explanation/metadata.md shows the
whole road.
"""
