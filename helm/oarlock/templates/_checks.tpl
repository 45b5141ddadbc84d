{{/* Refuses values that contradict one another, and changes of a release that would lose data; a schema sees neither. */}}
{{- define "oarlock.checks" -}}
{{- $v := .Values }}
{{- if has $v.mode (list "scheduler-only" "controllers-only") }}
{{- $part := ternary $v.scheduler $v.controllerManager (eq $v.mode "scheduler-only") }}
{{- $name := ternary "scheduler" "controllerManager" (eq $v.mode "scheduler-only") }}
{{- if ne (int $part.replicas) 1 }}
{{- fail (printf "%s.replicas is %v: in mode %s one process does all the work, because an API server of upstream's refuses no writes of a second one. Set it to 1." $name $part.replicas $v.mode) }}
{{- end }}
{{- end }}
{{- if eq $v.mode "controllers-only" }}
{{- if or (not $v.controllerManager.controllers) (has "*" $v.controllerManager.controllers) }}
{{- fail "controllerManager.controllers must name the controllers to run: in mode controllers-only the others go on in the existing controller manager, where --controllers must leave the named ones out." }}
{{- end }}
{{- end }}
{{- if and (eq $v.mode "apiserver-over-existing-etcd") (not $v.etcd.external.endpoints) }}
{{- fail "etcd.external.endpoints is empty: mode apiserver-over-existing-etcd needs the client URLs of etcd." }}
{{- end }}
{{- if and $v.etcd.external.endpoints (not $v.etcd.external.secret) }}
{{- fail "etcd.external.secret is empty: name a Secret with ca.crt, client.crt and client.key for etcd.external.endpoints." }}
{{- end }}
{{- if and $v.cloudControllerManager.enabled (include "oarlock.serves" .) (or (not $v.cloudControllerManager.endpoint) (not $v.cloudControllerManager.clusterName)) }}
{{- fail "cloudControllerManager.endpoint and cloudControllerManager.clusterName are needed where cloudControllerManager.enabled is true." }}
{{- end }}
{{- if and $v.apiserver.autoscaling.enabled (gt (int $v.apiserver.autoscaling.minReplicas) (int $v.apiserver.autoscaling.maxReplicas)) }}
{{- fail "apiserver.autoscaling.minReplicas is greater than apiserver.autoscaling.maxReplicas." }}
{{- end }}
{{- if ne (len (values $v.keys.nodes | uniq)) (len $v.keys.nodes) }}
{{- fail "keys.nodes: two nodes have the same address, by which API servers could not tell them apart." }}
{{- end }}
{{- if include "oarlock.tunnel" . }}
{{- range $v.apiserver.extraArgs }}
{{- if hasPrefix "--egress-selector-config-file" . }}
{{- fail "apiserver.extraArgs has --egress-selector-config-file, which the chart gives where konnectivity.enabled is true. Set konnectivity.enabled to false." }}
{{- end }}
{{- end }}
{{- end }}
{{- include "oarlock.keeps" . }}
{{- end }}

{{/* Compares with the members of etcd that are there. */}}
{{- define "oarlock.keeps" -}}
{{- $present := lookup "apps/v1" "StatefulSet" .Release.Namespace (include "oarlock.name" (list . "etcd")) }}
{{- if $present }}
{{- $e := .Values.etcd }}{{ $members := int $present.spec.replicas }}
{{- if not (include "oarlock.ownEtcd" .) }}
{{- fail "this change would remove the release's etcd, which holds the whole state: mode and etcd.external.endpoints of a release cannot change. Install another release, and move the state with `oarlock snapshot`." }}
{{- end }}
{{- if lt (int $e.replicas) $members }}
{{- fail (printf "etcd.replicas: %d members cannot become %d: those that are left would have no majority. Install another release, and move the state with `oarlock snapshot`." $members (int $e.replicas)) }}
{{- end }}
{{- if and (gt (int $e.replicas) 1) (eq $members 1) }}
{{- fail (printf "etcd.replicas: 1 member cannot become %d: with a second one that does not run yet it has no majority. Install another release, and move the state with `oarlock snapshot`." (int $e.replicas)) }}
{{- end }}
{{- if and (gt (int $e.replicas) $members) (ne $e.initialClusterState "existing") }}
{{- fail (printf "etcd.replicas: %d members cannot become %d by themselves: new members would begin a cluster of their own. README.md, \"More members of etcd\", says how." $members (int $e.replicas)) }}
{{- end }}
{{- $claims := $present.spec.volumeClaimTemplates | default list }}
{{- if and $claims (not $e.persistence.enabled) }}
{{- fail "etcd.persistence.enabled: the members keep their state in volumes, and would begin without it." }}
{{- end }}
{{- if and (not $claims) $e.persistence.enabled }}
{{- fail "etcd.persistence.enabled: the members have no volumes, and would lose their state with their pods. Install another release, and move the state with `oarlock snapshot`." }}
{{- end }}
{{- range $claims }}
{{- if ne (.spec.storageClassName | default "") $e.persistence.storageClass }}
{{- fail (printf "etcd.persistence.storageClass: the members' volumes are of class %q and cannot change to %q: the members would begin with empty ones." (.spec.storageClassName | default "") $e.persistence.storageClass) }}
{{- end }}
{{- if ne .spec.resources.requests.storage $e.persistence.size }}
{{- fail (printf "etcd.persistence.size: volumes of %s cannot change to %s here. Grow each PersistentVolumeClaim itself." .spec.resources.requests.storage $e.persistence.size) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
