{{/* What the parts have in common. Each takes a dict: root (the context), part (its name), and values (its own). */}}

{{- define "dray.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "dray.selector" -}}
app.kubernetes.io/name: dray
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "dray.labels" -}}
{{ include "dray.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end }}

{{- define "dray.metadata" -}}
name: dray-{{ .part }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "dray.labels" . | nindent 2 }}
{{- end }}

{{- define "dray.clusterMetadata" -}}
name: dray-{{ .part }}
labels:
  {{- include "dray.labels" . | nindent 2 }}
{{- end }}

{{- define "dray.podMetadata" -}}
labels:
  {{- include "dray.labels" . | nindent 2 }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Where the pod runs, and as whom it talks to the API server. */}}
{{- define "dray.podSpec" -}}
serviceAccountName: dray-{{ .part }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
{{ toYaml . }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "dray.container" -}}
name: {{ .part }}
image: {{ include "dray.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- with .values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "dray.lastArgs" -}}
- --log-format={{ .root.Values.logFormat }}
- --log-level={{ .root.Values.logLevel }}
{{- with .values.args }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* For everything but the agent: no user of the host, no rights, nothing to write. */}}
{{- define "dray.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "dray.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Who may read metrics: who has the token in the Secret. It may be made later; until then nobody may. */}}
{{- define "dray.metricsArgs" -}}
{{- if not .root.Values.metrics.open -}}
- --metrics-token-file=/var/run/dray/metrics/token
{{- end }}
{{- end }}

{{- define "dray.metricsMount" -}}
{{- if not .root.Values.metrics.open -}}
- {name: metrics-token, mountPath: /var/run/dray/metrics, readOnly: true}
{{- end }}
{{- end }}

{{- define "dray.metricsVolume" -}}
{{- if not .root.Values.metrics.open -}}
- name: metrics-token
  secret: {secretName: {{ .root.Values.metrics.tokenSecret }}, optional: true}
{{- end }}
{{- end }}

{{- define "dray.leaderArgs" -}}
- --leader-elect
- --leader-elect-resource-namespace={{ .root.Release.Namespace }}
{{- end }}

{{- define "dray.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "dray.metadata" . | nindent 2 }}
{{- end }}

{{- define "dray.clusterBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "dray.clusterMetadata" . | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: dray-{{ .part }}}
subjects:
- {kind: ServiceAccount, name: dray-{{ .part }}, namespace: {{ .root.Release.Namespace }}}
{{- end }}

{{- define "dray.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "dray.metadata" . | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: dray-{{ .part }}}
subjects:
- {kind: ServiceAccount, name: dray-{{ .part }}, namespace: {{ .root.Release.Namespace }}}
{{- end }}

{{- define "dray.budget" -}}
{{- if and .root.Values.podDisruptionBudget.enabled (gt (int .values.replicas) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "dray.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "dray.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* The Service that a ServiceMonitor needs, and who may connect. `ports` are names and numbers, metrics first. */}}
{{- define "dray.watched" -}}
{{- if and .metrics .root.Values.serviceMonitor.enabled }}
---
apiVersion: v1
kind: Service
metadata:
  name: dray-{{ .part }}-metrics
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dray.labels" . | nindent 4 }}
    dray.internal/metrics: "true"
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "dray.selector" . | nindent 4 }}
  ports:
  - {name: metrics, port: {{ .metrics }}, targetPort: metrics}
{{- end }}
{{- if or .root.Values.networkPolicy.enabled .isClosed }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "dray.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "dray.selector" . | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
  {{- with .metrics }}
  - ports:
    - {port: {{ . }}, protocol: TCP}
    {{- with $.root.Values.networkPolicy.metricsFrom }}
    from:
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  {{- with .open }}
  - ports:
    - {port: {{ .port }}, protocol: TCP}
    {{- with .from }}
    from:
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The names of the DRA drivers: `kinds` with the domain. */}}
{{- define "dray.drivers" -}}
{{- range .Values.kinds }}
- {{ if eq . "nvidia" }}gpu.nvidia.com{{ else }}{{ . }}.{{ $.Values.domain }}{{ end }}
{{- end }}
{{- end }}
