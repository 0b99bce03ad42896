{{- /* An image by its digest, or else by its tag. */ -}}
{{- define "extproc.image" -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}

{{- /*
The text of extproc.yaml. What the chart mounts is named there too; what would only be found out by pods that don't start is
refused here.
*/ -}}
{{- define "extproc.settings" -}}
{{- $characters := and .Values.runner.enabled .Values.runner.characters }}
{{- $config := deepCopy .Values.config }}
{{- if .Values.configText }}
{{- $config = fromYaml .Values.configText }}
{{- with $config.Error }}{{ fail (printf "configText is no YAML: %s" .) }}{{ end }}
{{- else }}
{{- if .Values.tls.enabled }}
{{- $config = merge $config (dict "tls" (dict "certificate" "/etc/tls/tls.crt" "key" "/etc/tls/tls.key")) }}
{{- end }}
{{- if .Values.rateLimit.enabled }}
{{- $config = merge $config (dict "rate_limit_service" (dict "address" "extproc-ratelimit:8081")) }}
{{- end }}
{{- if $characters }}
{{- $config = merge $config (dict "characters" "/etc/characters") }}
{{- end }}
{{- end }}
{{- if and .Values.tls.enabled (not $config.tls) }}
{{- fail "tls.enabled needs in configText: tls: {certificate: /etc/tls/tls.crt, key: /etc/tls/tls.key}" }}
{{- end }}
{{- if and $config.tls (not .Values.tls.enabled) }}
{{- fail "the settings have `tls`, and no certificate is mounted: set tls.enabled" }}
{{- end }}
{{- if and .Values.rateLimit.enabled (not .Values.rateLimit.limits) }}
{{- fail "rateLimit.enabled needs the limits that `extproc limits` prints: --set-file rateLimit.limits=ratelimit.yaml" }}
{{- end }}
{{- if and .Values.rateLimit.enabled (not $config.rate_limit_service) }}
{{- fail "rateLimit.enabled needs in configText: rate_limit_service: {address: extproc-ratelimit:8081}" }}
{{- end }}
{{- if and $config.rate_limit_service (not (or $config.api_keys $config.jwt)) }}
{{- fail "the settings have `rate_limit_service`, and nothing tells clients apart: they need `api_keys` or `jwt`" }}
{{- end }}
{{- if and $characters (not $config.characters) }}
{{- fail "runner.characters needs in configText: characters: /etc/characters" }}
{{- end }}
{{- if and (or $config.characters $config.tool_servers) (not .Values.runner.enabled) }}
{{- fail "the settings have `characters` or `tool_servers`, and nothing runs them: set runner.enabled" }}
{{- end }}
{{- .Values.configText | default (toYaml $config) }}
{{- end }}

{{- /*
The name of the limits' ConfigMap, with a hash of what is in it, so that changed limits roll the pods: the one that kustomize
makes, which hashes no name.
*/ -}}
{{- define "extproc.limits.name" -}}
{{- $said := dict "kind" "ConfigMap" "name" "" "data" (dict "ratelimit.yaml" .Values.rateLimit.limits) }}
{{- $hash := toJson $said | sha256sum | trunc 10 }}
{{- $hash = $hash | replace "0" "g" | replace "1" "h" | replace "3" "k" | replace "a" "m" | replace "e" "t" }}
{{- printf "extproc-ratelimit-%s" $hash }}
{{- end }}
