"""● Clusters of several real nodes on simulated time, network and disks: `python -m proof.nodes --seeds 100`."""
