#!/usr/bin/env bash
# What Kubernetes wants of Envoy, asked of its admin interface. Envoy's image has bash, but no HTTP client.
#
#   admin.sh HOST:PORT ready
#       Succeeds when Envoy takes requests.
#   admin.sh HOST:PORT drain NOTICE LIMIT
#       Has Envoy finish, and returns when it has. For NOTICE seconds it still takes new connections, because not every
#       node knows at once that this pod is leaving. Then it takes none, and LIMIT seconds at most are left for the
#       requests under way, and for telling the service that counts for all pods what they cost. Its metrics can be read
#       until the end.
set -euo pipefail

admin=$1

ask() { # METHOD PATH; prints the whole answer
  exec 3<>"/dev/tcp/${admin/://}" || return
  printf '%s %s HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n' "$1" "$2" >&3
  timeout 5 cat <&3
}

good() { # ANSWER
  [[ $1 == 'HTTP/1.1 200 '* ]]
}

ready() {
  good "$(ask GET /ready)"
}

# Whether requests have no complete answer yet, clients have not taken the last bytes of theirs, or the service that counts
# for all pods has not been told what an answer cost. Unless Envoy says that all is done, it isn't: it may only be busy.
unfinished() {
  local asked='http\.openai\.downstream_(rq_active|cx_tx_bytes_buffered)' told='cluster\._rate_limits\.upstream_rq_(pending_)?active'
  local gauges="($asked|$told)" answer
  answer=$(ask GET "/stats?filter=^$gauges$") && good "$answer" || return 0
  [[ $answer =~ $gauges:\ [1-9] ]]
}

insist() { # PATH; again until Envoy does as it is told
  until good "$(ask POST "$1")" || ((SECONDS >= deadline)); do
    sleep 0.5
  done
}

drain() { # NOTICE LIMIT
  local deadline=$((SECONDS + $1 + $2))
  # From here on /ready fails, and every answer closes its connection: clients that keep theirs move to another pod.
  insist /healthcheck/fail
  sleep "$1"
  insist '/drain_listeners?inboundonly'
  while unfinished && ((SECONDS < deadline)); do
    sleep 0.5
  done
}

"${@:2}"
