"""deploy/k8s, without a cluster: rendered as a user would, read, and run where one machine can."""
