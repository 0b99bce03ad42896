"""The Helm chart deploy/helm/extproc, made of what kustomize makes; `make test-chart` runs it in Helm's own engine."""
