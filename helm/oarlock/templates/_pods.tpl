{{/* The image of our own parts. */}}
{{- define "oarlock.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{/* What every container may do: the Pod Security Standard `restricted`, and a file system that is read-only. */}}
{{- define "oarlock.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Fields that every pod has. List: context, part, name of the service account. */}}
{{- define "oarlock.pod" -}}
{{- $c := index . 0 }}{{ $part := index . 1 }}
serviceAccountName: {{ include "oarlock.name" (list $c (index . 2)) }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with $c.Values.imagePullSecrets }}
imagePullSecrets: {{ range . }}
  - name: {{ . | quote }}{{ end }}
{{- end }}
{{- with $c.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $c.Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $c.Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
affinity:
  podAntiAffinity:
    {{- $term := printf "topologyKey: kubernetes.io/hostname\nlabelSelector:\n  matchLabels:\n%s" (include "oarlock.selector" (list $c $part) | indent 4) }}
    {{- if and (eq $c.Values.antiAffinity "hard") (has $part (list "etcd" "nats" "apiserver")) }}
    requiredDuringSchedulingIgnoredDuringExecution:
      - {{ $term | nindent 8 | trim }}
    {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm: {{ $term | nindent 10 }}
    {{- end }}
{{- end }}

{{/* The volume with a part's keys, and nothing else. List: context, part, files. */}}
{{- define "oarlock.keys" -}}
{{ include "oarlock.keysVolume" (list (index . 0) "keys" (index . 1) (index . 2)) }}
{{- end }}

{{/* A volume with a part's keys, and nothing else. List: context, name of the volume, part, files. */}}
{{- define "oarlock.keysVolume" -}}
- name: {{ index . 1 }}
  secret:
    secretName: {{ include "oarlock.name" (list (index . 0) (printf "keys-%s" (index . 2))) }}
    defaultMode: 288 # 0440
    items: {{ range index . 3 }}
      - {key: {{ . | replace "/" "_" }}, path: {{ . }}}{{ end }}
{{- end }}

{{/* Flags for the bus. List: context, role. */}}
{{- define "oarlock.busFlags" -}}
{{- $c := index . 0 }}
{{- if include "oarlock.bus" $c -}}
- --nats-servers={{ include "oarlock.members" (list $c "nats" $c.Values.nats.replicas "tls://" ":4222") }}
- --nats-ca=/keys/nats/ca.crt
- --nats-credentials=/keys/nats/{{ index . 1 }}.seed
{{- end }}
{{- end }}

{{/* Probes of a server with health paths. Name or number of the port. */}}
{{- define "oarlock.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: {{ . }}, scheme: HTTPS}
  periodSeconds: 2
  failureThreshold: 150
livenessProbe:
  httpGet: {path: /livez, port: {{ . }}, scheme: HTTPS}
  periodSeconds: 10
  timeoutSeconds: 15
  failureThreshold: 8
readinessProbe:
  httpGet: {path: /readyz, port: {{ . }}, scheme: HTTPS}
  periodSeconds: 2
  timeoutSeconds: 15
  failureThreshold: 3
{{- end }}

{{/* A budget for disruptions, a pod at a time, of parts with several pods. List: context, part, replicas. */}}
{{- define "oarlock.budget" -}}
{{- if gt (int (index . 2)) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "oarlock.name" . }}
  labels: {{ include "oarlock.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{ include "oarlock.selector" . | nindent 6 }}
{{- end }}
{{- end }}
