#!/bin/sh
# Refuses manifests whose images may change: kubectl kustomize OVERLAY | deploy/k8s/digests.sh
# Exits 0 if every image is named by its digest, else 1 with those that aren't, one a line.
images=$(sed -nE 's/^[[:space:]]*(- )?image:[[:space:]]*"?([^"[:space:]]+)"?[[:space:]]*$/\2/p' | sort -u)
test -n "$images" || { echo "no image in these manifests" >&2; exit 1; }
if tags=$(echo "$images" | grep -Ev '@sha256:[0-9a-f]{64}$'); then
  echo "not by digest:" >&2
  echo "$tags"
  exit 1
fi
