"""Search: topics to indices of OpenSearch and Elasticsearch.  Start with `sink.py`."""
