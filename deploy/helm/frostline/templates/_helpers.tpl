{{- define "frostline.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "frostline.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "frostline.labels" -}}
{{ include "frostline.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "frostline.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "frostline.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "frostline.value" -}}
{{- if or (kindIs "bool" .) (kindIs "int" .) (kindIs "int64" .) -}}
{{- . -}}
{{- else if kindIs "float64" . -}}
{{- if eq . (floor .) }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- else if kindIs "slice" . -}}
{{- toJson . -}}
{{- else -}}
{{- toString . | toJson -}}
{{- end -}}
{{- end -}}

{{- define "frostline.config" -}}
repo = {{ required "repo is required: s3://bucket/logs" .Values.repo | toJson }}
data = "/var/cache/frostline"
{{- range $key, $value := .Values.settings }}
{{ $key }} = {{ include "frostline.value" $value }}
{{- end }}

[serve]
listen = "0.0.0.0:9200"
{{- range $key, $value := .Values.serve }}
{{- if has $key (list "listen" "tls_cert" "tls_client_ca" "tls_key") }}
{{- fail (printf "serve.%s is what the chart sets: see tls and service" $key) }}
{{- end }}
{{ $key }} = {{ include "frostline.value" $value }}
{{- end }}
{{- if .Values.tls.secretName }}
tls_cert = "/etc/frostline-tls/tls.crt"
tls_key = "/etc/frostline-tls/tls.key"
{{- end }}
{{- if .Values.tls.clientCaSecretName }}
tls_client_ca = "/etc/frostline-client-ca/ca.crt"
{{- end }}
{{- end -}}

{{/* The ports of OpenTelemetry over gRPC and of syslog, where `serve` has them. */}}
{{- define "frostline.doors" -}}
{{- $doors := list (list "otlp_grpc" "otlp-grpc" "TCP") (list "syslog" "syslog" "TCP") (list "syslog" "syslog-udp" "UDP") (list "syslog_tls" "syslog-tls" "TCP") -}}
{{- range $door := $doors }}
{{- with get $.Values.serve (index $door 0) }}
- name: {{ index $door 1 }}
  port: {{ regexFind "[0-9]+$" . | required (printf "serve.%s is an address with a port, such as 0.0.0.0:4317" (index $door 0)) }}
  protocol: {{ index $door 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "frostline.probe" -}}
{{- if .root.Values.tls.clientCaSecretName -}}
tcpSocket:
  port: http
{{- else -}}
httpGet:
  path: {{ .path }}
  port: http
  scheme: {{ if .root.Values.tls.secretName }}HTTPS{{ else }}HTTP{{ end }}
{{- end -}}
{{- end -}}
