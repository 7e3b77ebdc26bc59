"""● Clusters of several real nodes on simulated time, network and disks: `python -m proof.fleet --seeds 100`."""
