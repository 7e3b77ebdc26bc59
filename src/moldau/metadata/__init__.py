"""What the cluster is: one image, the decisions that change it.  Start at `image`."""
