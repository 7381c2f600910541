{{- define "llama-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The release's name when it already says what this is, else both. A Service is named after
     it: no dots, a letter first, and room for `-metrics`. The release's name stays whole. */}}
{{- define "llama-operator.fullname" -}}
{{- $name := include "llama-operator.name" . -}}
{{- $full := printf "%s-%s" .Release.Name $name -}}
{{- if .Values.fullnameOverride -}}
{{- $full = .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- $full = .Release.Name -}}
{{- end -}}
{{- $full = $full | replace "." "-" -}}
{{- if not (regexMatch "^[a-z]" $full) -}}
{{- $full = printf "o-%s" $full -}}
{{- end -}}
{{- $full | trunc 55 | trimSuffix "-" -}}
{{- end -}}

{{- define "llama-operator.selector" -}}
app.kubernetes.io/name: {{ include "llama-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "llama-operator.labels" -}}
{{ include "llama-operator.selector" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "llama-operator.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "llama-operator.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "llama-operator.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- define "llama-operator.runtimeImage" -}}
{{- default (printf "llama-runtime:%s" .Chart.AppVersion) .Values.runtimeImage -}}
{{- end -}}

{{/* What a container of ours may do: the restricted Pod Security Standard. */}}
{{- define "llama-operator.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "llama-operator.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* What the operator may do in the namespaces that it serves. It reads no Secrets. */}}
{{- define "llama-operator.rules" -}}
- apiGroups: [llama-operator.dev]
  resources: [llamadeployments]
  verbs: [get, list, watch]
- apiGroups: [llama-operator.dev]
  resources: [llamadeployments/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}
