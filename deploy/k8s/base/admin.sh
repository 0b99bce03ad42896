#!/usr/bin/env bash
# What Kubernetes wants of Envoy, asked of its admin interface. Envoy's image has bash, but no HTTP client.
#
#   admin.sh HOST:PORT ready
#       Succeeds when Envoy takes requests.
#   admin.sh HOST:PORT drain NOTICE LIMIT
#       Has Envoy finish, and returns when it has. For NOTICE seconds it still takes new connections, because not every
#       node knows at once that this pod is leaving. Then it takes none, and LIMIT seconds at most are left for the
#       requests under way.
set -euo pipefail

admin=$1

ask() { # METHOD PATH; prints the whole answer
  exec 3<>"/dev/tcp/${admin/://}" || return
  printf '%s %s HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n' "$1" "$2" >&3
  cat <&3
}

ready() {
  [[ $(ask GET /ready) == 'HTTP/1.1 200 '* ]]
}

# Whether requests have no complete answer yet, or clients have not taken the last bytes of theirs.
unfinished() {
  local gauges='http\.openai\.downstream_(rq_active|cx_tx_bytes_buffered)'
  [[ $(ask GET "/stats?filter=^$gauges$") =~ $gauges:\ [1-9] ]]
}

drain() { # NOTICE LIMIT
  # From here on /ready fails, and every answer closes its connection: clients that keep theirs move to another pod.
  ask POST /healthcheck/fail >/dev/null
  sleep "$1"
  ask POST /drain_listeners >/dev/null
  local deadline=$((SECONDS + $2))
  while unfinished && ((SECONDS < deadline)); do
    sleep 0.5
  done
}

"${@:2}"
