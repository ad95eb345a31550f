{{/* Names, labels, and the parts that all pods share. */}}
{{- define "agentchat.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What selects pods never changes: it is immutable in a Deployment. (dict "root" $ "component" "gateway") */}}
{{- define "agentchat.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "agentchat.labels" -}}
{{ include "agentchat.selector" . }}
app.kubernetes.io/part-of: agentchat
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* (dict "root" $ "component" "gateway") */}}
{{- define "agentchat.image" -}}
{{ .root.Values.image.repository }}/{{ .component }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end -}}

{{- define "agentchat.secretName" -}}
{{- if .Values.secrets.external.enabled -}}
{{ include "agentchat.fullname" . }}
{{- else -}}
{{ .Values.secrets.existing }}
{{- end -}}
{{- end -}}

{{/* (dict "root" $ "name" "JWT_SECRET" "key" .Values.secrets.keys.jwtSecret "optional" true) */}}
{{- define "agentchat.secretEnv" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ include "agentchat.secretName" .root }}
      key: {{ .key }}
      {{- if .optional }}
      optional: true
      {{- end }}
{{- end -}}

{{/* Variables of all who talk to NATS. (dict "root" $ "role" "gateway") */}}
{{- define "agentchat.busEnv" -}}
NATS_URL: {{ join "," .root.Values.nats.urls | quote }}
NATS_REPLICAS: {{ .root.Values.nats.replicas | quote }}
ACK_WAIT_MS: {{ .root.Values.timing.ackWaitMs | int64 | quote }}
LOG: {{ .root.Values.log | quote }}
{{- if .root.Values.nats.ca.secret }}
NATS_CA: /etc/agentchat/nats-ca/ca.crt
{{- end }}
{{- if .root.Values.nats.creds.secret }}
NATS_CREDS: /etc/agentchat/nats-creds/user.creds
{{- end }}
{{- with .root.Values.tracing.endpoint }}
OTEL_EXPORTER_OTLP_ENDPOINT: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* (dict "root" $ "key" .Values.nats.nkeys.gatewayKey) */}}
{{- define "agentchat.nkeyEnv" -}}
{{- with .root.Values.nats.nkeys.secret }}
- name: NATS_NKEY
  valueFrom:
    secretKeyRef: {name: {{ . }}, key: {{ $.key }}}
{{- end }}
{{- end -}}

{{/* (dict "root" $ "credsKey" "gateway.creds") */}}
{{- define "agentchat.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .root.Values.nats.ca.secret }}
- name: nats-ca
  mountPath: /etc/agentchat/nats-ca
  readOnly: true
{{- end }}
{{- if .root.Values.nats.creds.secret }}
- name: nats-creds
  mountPath: /etc/agentchat/nats-creds
  readOnly: true
{{- end }}
{{- if .root.Values.postgres.ca.secret }}
- name: postgres-ca
  mountPath: /etc/agentchat/postgres
  readOnly: true
{{- end }}
{{- end -}}

{{- define "agentchat.volumes" -}}
- name: tmp
  emptyDir: {}
{{- with .root.Values.nats.ca }}
{{- if .secret }}
- name: nats-ca
  secret:
    secretName: {{ .secret }}
    items: [{key: {{ .key }}, path: ca.crt}]
{{- end }}
{{- end }}
{{- if .root.Values.nats.creds.secret }}
- name: nats-creds
  secret:
    secretName: {{ .root.Values.nats.creds.secret }}
    defaultMode: 0440
    items: [{key: {{ .credsKey }}, path: user.creds}]
{{- end }}
{{- with .root.Values.postgres.ca }}
{{- if .secret }}
- name: postgres-ca
  secret:
    secretName: {{ .secret }}
    items: [{key: {{ .key }}, path: ca.crt}]
{{- end }}
{{- end }}
{{- end -}}

{{- define "agentchat.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "agentchat.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Where and how pods of one component are placed. (dict "root" $ "component" "gateway" "values" .Values.gateway) */}}
{{- define "agentchat.placement" -}}
{{- if .values.topologySpread.enabled }}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: {{ $.values.topologySpread.whenUnsatisfiable }}
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        {{- include "agentchat.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "agentchat.podMetadata" -}}
labels:
  {{- include "agentchat.labels" . | nindent 2 }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "agentchat.gatewayGrace" -}}
{{- $needed := add .Values.gateway.preStopSeconds (ceil (divf .Values.gateway.noticeMs 1000) | int64) .Values.gateway.graceSeconds 5 -}}
{{- $given := .Values.gateway.terminationGracePeriodSeconds | int64 -}}
{{- if and $given (lt $given $needed) -}}
{{- fail (printf "gateway.terminationGracePeriodSeconds is %d, but stopping takes up to %d s: preStopSeconds + noticeMs + graceSeconds + 5" $given $needed) -}}
{{- end -}}
{{- $given | default $needed -}}
{{- end -}}

{{- define "agentchat.workerGrace" -}}
{{- $needed := add .Values.worker.preStopSeconds .Values.worker.drainSeconds 15 -}}
{{- $given := .Values.worker.terminationGracePeriodSeconds | int64 -}}
{{- if and $given (lt $given $needed) -}}
{{- fail (printf "worker.terminationGracePeriodSeconds is %d, but a drain takes up to %d s: preStopSeconds + drainSeconds + 15" $given $needed) -}}
{{- end -}}
{{- $given | default $needed -}}
{{- end -}}

{{- define "agentchat.lagThreshold" -}}
{{- $threshold := .Values.worker.autoscaling.keda.lagThreshold | int64 -}}
{{- if $threshold -}}
{{- $threshold -}}
{{- else -}}
{{- max 1 (div (mul 3 (.Values.worker.slots | int64)) 4) -}}
{{- end -}}
{{- end -}}

{{- /* A quantity of memory in MiB; nothing if it is given in a way that nobody uses for it. */}}
{{- define "agentchat.mebibytes" -}}
{{- $quantity := toString . -}}
{{- if hasSuffix "Gi" $quantity }}{{ mulf (trimSuffix "Gi" $quantity | float64) 1024 | int64 }}
{{- else if hasSuffix "Mi" $quantity }}{{ trimSuffix "Mi" $quantity | float64 | int64 }}
{{- else if hasSuffix "G" $quantity }}{{ mulf (trimSuffix "G" $quantity | float64) 953.67 | int64 }}
{{- else if hasSuffix "M" $quantity }}{{ mulf (trimSuffix "M" $quantity | float64) 0.95367 | int64 }}
{{- end -}}
{{- end }}
