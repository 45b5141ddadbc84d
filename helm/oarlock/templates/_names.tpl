{{/* The release's name, at most 32 letters: a longer one keeps its beginning and gets a hash, so that two releases stay apart. */}}
{{- define "oarlock.release" -}}
{{- if le (len .Release.Name) 32 }}{{ .Release.Name }}{{ else }}{{ printf "%s-%s" (.Release.Name | trunc 23 | trimSuffix "-") (.Release.Name | sha256sum | trunc 8) }}{{ end }}
{{- end }}

{{/* Name of an object of this release. No part's name is the end of another's after a hyphen, so that releases `a` and `a-b` stay apart. List: context, part. */}}
{{- define "oarlock.name" -}}
{{ include "oarlock.release" (index . 0) }}-{{ index . 1 }}
{{- end }}

{{/* DNS name of a Service of this release. List: context, part. */}}
{{- define "oarlock.host" -}}
{{ include "oarlock.name" . }}.{{ (index . 0).Release.Namespace }}.svc
{{- end }}

{{/* Name of an object outside namespaces. List: context, part. */}}
{{- define "oarlock.clusterName" -}}
{{ include "oarlock.release" (index . 0) }}-{{ (index . 0).Release.Namespace | sha256sum | trunc 8 }}-{{ index . 1 }}
{{- end }}

{{/* Labels by which pods of a part are selected. List: context, part. */}}
{{- define "oarlock.selector" -}}
app.kubernetes.io/name: oarlock
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Labels of an object. List: context, part. */}}
{{- define "oarlock.labels" -}}
{{ include "oarlock.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end }}

{{/* Addresses of the members of a StatefulSet, with commas. List: context, part, count, before, after. */}}
{{- define "oarlock.members" -}}
{{- $c := index . 0 }}{{ $part := index . 1 }}{{ $before := index . 3 }}{{ $after := index . 4 }}{{ $all := list }}
{{- range $i := until (int (index . 2)) }}
{{- $all = append $all (printf "%s%s-%d.%s%s" $before (include "oarlock.name" (list $c $part)) $i (include "oarlock.host" (list $c $part)) $after) }}
{{- end }}
{{- join "," $all }}
{{- end }}

{{/* What a mode has; each is "true" or empty. */}}
{{- define "oarlock.serves" -}}{{ if has .Values.mode (list "full" "apiserver-over-existing-etcd") }}true{{ end }}{{- end }}
{{- define "oarlock.ownEtcd" -}}{{ if and (eq .Values.mode "full") (not .Values.etcd.external.endpoints) }}true{{ end }}{{- end }}
{{- define "oarlock.bus" -}}{{ if and (include "oarlock.serves" .) .Values.nats.enabled }}true{{ end }}{{- end }}
