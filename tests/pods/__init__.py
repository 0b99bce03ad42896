"""The pod of the Kubernetes manifests, run as processes of one machine: no cluster, no container runtime."""
