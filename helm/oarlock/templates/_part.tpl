{{/*
A part that calls the API and serves health and metrics: its Deployment, Service and budget.
List: context, and a dictionary: component (its name), command (its subcommand and the name of its keys), role (on the bus), port, values, flags; volumes and mounts
beside the keys.
*/}}
{{- define "oarlock.part" -}}
{{- $c := index . 0 }}{{ $p := index . 1 }}{{ $at := list $c $p.component }}
{{- $inside := include "oarlock.serves" $c }}{{ $account := $p.component }}
{{- if $inside }}{{ $account = "parts" }}{{ end }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "oarlock.name" $at }}
  labels: {{ include "oarlock.labels" $at | nindent 4 }}
spec:
  replicas: {{ $p.values.replicas }}
  {{- if $inside }}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  {{- else }}
  # Beside an existing control plane one process does all the work, and there must never be two.
  strategy: {type: Recreate}
  {{- end }}
  selector:
    matchLabels: {{ include "oarlock.selector" $at | nindent 6 }}
  template:
    metadata:
      labels: {{ include "oarlock.labels" $at | nindent 8 }}
      {{- with $c.Values.podAnnotations }}
      annotations: {{ toYaml . | nindent 8 }}
      {{- end }}
    spec: {{ include "oarlock.pod" (list $c $p.component $account) | nindent 6 }}
      {{- if and (not $inside) (not $c.Values.existing.kubeconfigSecret) }}
      automountServiceAccountToken: true
      {{- end }}
      containers:
        - name: {{ $p.component }}
          {{- include "oarlock.image" $c | nindent 10 }}
          {{- include "oarlock.container" $c | nindent 10 }}
          args:
            - {{ $p.command }}
            - --kubeconfig=/keys/kubeconfig
            - --bind-address=0.0.0.0
            - --secure-port={{ $p.port }}
            - --log={{ $c.Values.log }}
            {{- range $p.flags }}
            - {{ . | quote }}
            {{- end }}
            {{- if $inside }}
            - --tls-cert-file=/keys/server.crt
            - --tls-private-key-file=/keys/server.key
            {{- include "oarlock.busFlags" (list $c $p.role) | nindent 12 }}
            {{- end }}
            {{- range $p.values.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          ports:
            - {name: https, containerPort: {{ $p.port }}}
          resources: {{ toYaml $p.values.resources | nindent 12 }}
          {{- include "oarlock.probes" "https" | nindent 10 }}
          volumeMounts:
            - {name: keys, mountPath: /keys, readOnly: true}
            {{- with $p.mounts }}{{ toYaml . | nindent 12 }}{{ end }}
      volumes:
        {{- if $inside }}
        {{- $files := list "kubeconfig" "server.crt" "server.key" }}
        {{- if include "oarlock.bus" $c }}{{ $files = concat $files (list (printf "nats/%s.seed" $p.role) "nats/roles.pub" "nats/ca.crt") }}{{ end }}
        {{- include "oarlock.keys" (list $c $p.command $files) | nindent 8 }}
        {{- else if $c.Values.existing.kubeconfigSecret }}
        - name: keys
          secret: {secretName: {{ $c.Values.existing.kubeconfigSecret | quote }}, defaultMode: 288, items: [{key: kubeconfig, path: kubeconfig}]}
        {{- else }}
        - name: keys
          configMap: {name: {{ include "oarlock.name" (list $c "kubeconfig") }}}
        {{- end }}
        {{- with $p.volumes }}{{ toYaml . | nindent 8 }}{{ end }}
---
# For metrics and checks: nobody calls this part.
apiVersion: v1
kind: Service
metadata:
  name: {{ include "oarlock.name" $at }}
  labels: {{ include "oarlock.labels" $at | nindent 4 }}
spec:
  clusterIP: None
  selector: {{ include "oarlock.selector" $at | nindent 4 }}
  ports:
    - {name: https, port: {{ $p.port }}, targetPort: https}
{{- include "oarlock.budget" (list $c $p.component $p.values.replicas) }}
{{- end }}
