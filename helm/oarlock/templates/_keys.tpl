{{/* A pod that makes and renews keys. List: context, name of its account. */}}
{{- define "oarlock.keysPod" -}}
{{- $c := index . 0 }}{{ $account := index . 1 }}
{{- $api := include "oarlock.name" (list $c "apiserver") }}{{ $ns := $c.Release.Namespace }}
{{- $names := list $api (printf "%s.%s" $api $ns) (printf "%s.%s.svc" $api $ns) (printf "%s.%s.svc.%s" $api $ns $c.Values.clusterDomain) (include "oarlock.host" (list $c "apiserver-pods")) }}
{{- if $c.Values.api.url }}{{ $names = append $names (urlParse $c.Values.api.url).hostname }}{{ end }}
{{- $names = concat $names $c.Values.api.hostnames | uniq }}
{{- $user := $c.Values.api.url | default (printf "https://%s" (include "oarlock.host" (list $c "apiserver"))) }}
{{- $tunnel := include "oarlock.name" (list $c "konnectivity") }}
{{- $tunnels := concat (list $tunnel (printf "%s.%s" $tunnel $ns) (printf "%s.%s.svc" $tunnel $ns) (printf "%s.%s.svc.%s" $tunnel $ns $c.Values.clusterDomain)) $c.Values.konnectivity.hostnames | uniq }}
metadata:
  labels: {{ include "oarlock.labels" (list $c $account) | nindent 4 }}
  {{- with $c.Values.podAnnotations }}
  annotations: {{ toYaml . | nindent 4 }}
  {{- end }}
spec: {{ include "oarlock.pod" (list $c $account $account) | nindent 2 }}
  restartPolicy: OnFailure
  automountServiceAccountToken: true
  containers:
    - name: keys
      {{- include "oarlock.image" $c | nindent 6 }}
      {{- include "oarlock.container" $c | nindent 6 }}
      args:
        - keys
        - --to-secret={{ include "oarlock.name" (list $c "keys") }}
        - --namespace={{ $ns }}
        - --server=https://{{ include "oarlock.host" (list $c "apiserver-pods") }}:6443
        - --user-server={{ $user }}
        {{- if $c.Values.keys.nodes }}
        - --node-server={{ $user }}
        {{- range $node, $address := $c.Values.keys.nodes }}
        - --part-nodes={{ $address }}={{ $node }}
        {{- end }}
        {{- end }}
        - --tls-san={{ join "," $names }}
        {{- if include "oarlock.ownEtcd" $c }}
        # For as many members as the chart takes.
        - --etcd-san={{ include "oarlock.members" (list $c "etcd" 5 "" "") }},localhost,127.0.0.1
        {{- end }}
        - --konnectivity-san={{ join "," $tunnels }}
        - --nats-tls-san={{ include "oarlock.members" (list $c "nats" 5 "" "") }}
        - --nats-routes={{ include "oarlock.members" (list $c "nats" $c.Values.nats.replicas "" ":6222") }}
      resources: {{ toYaml $c.Values.keys.resources | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
  volumes:
    - name: tmp
      emptyDir: {medium: Memory, sizeLimit: 8Mi}
{{- end }}
