{{/* Whether API servers call nodes through the tunnel; "true" or empty. An existing cluster, whose etcd is there, has nodes that are reached already. */}}
{{- define "oarlock.tunnel" -}}{{ if and (eq .Values.mode "full") .Values.konnectivity.enabled }}true{{ end }}{{- end }}

{{/* Folder of the socket between an API server and the tunnel's server beside it. */}}
{{- define "oarlock.tunnelFolder" -}}/run/konnectivity{{- end }}

{{/*
The tunnel's server beside an API server: it starts before the API server, and ends after it, when the last requests have reached their nodes.
It has no credential of any cluster. An agent looks for as many servers as are always there, and with --sync-forever for more.
*/}}
{{- define "oarlock.tunnelServer" -}}
{{- $v := .Values.konnectivity }}{{ $a := .Values.apiserver }}
- name: konnectivity-server
  restartPolicy: Always
  {{- include "oarlock.image" . | nindent 2 }}
  {{- include "oarlock.container" . | nindent 2 }}
  args:
    - konnectivity-server
    - --uds-name={{ include "oarlock.tunnelFolder" . }}/server.sock
    - --server-id=$(POD_NAME)
    - --server-count={{ ternary $a.autoscaling.minReplicas $a.replicas $a.autoscaling.enabled }}
    - --cluster-cert=/keys/server.crt
    - --cluster-key=/keys/server.key
    - --cluster-ca-cert=/keys/ca.crt
    # The agent of the node, where there is one; for addresses that no agent names one with a default route, or any.
    - --proxy-strategies=destHost,defaultRoute,default
    # Metrics are at the port of health too.
    - --admin-port=0
    - --log={{ .Values.log }}
    {{- range $v.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  env:
    - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  ports:
    - {name: agents, containerPort: 8091}
    - {name: tunnel-health, containerPort: 8092}
  resources: {{ toYaml $v.resources | nindent 4 }}
  # Then the socket is there.
  startupProbe:
    httpGet: {path: /healthz, port: tunnel-health}
    periodSeconds: 1
    failureThreshold: 60
  # No probe of readiness: that no agent is connected is no reason to take the API away.
  livenessProbe:
    httpGet: {path: /healthz, port: tunnel-health}
    periodSeconds: 10
    timeoutSeconds: 15
    failureThreshold: 8
  volumeMounts:
    - {name: tunnel-keys, mountPath: /keys, readOnly: true}
    - {name: tunnel, mountPath: {{ include "oarlock.tunnelFolder" . }}}
{{- end }}

{{/* The volumes of the tunnel's server and of the socket. */}}
{{- define "oarlock.tunnelVolumes" -}}
{{ include "oarlock.keysVolume" (list . "tunnel-keys" "konnectivity-server" (list "ca.crt" "server.crt" "server.key")) }}
# Whoever may write to the socket may call every node: nobody but the two.
- name: tunnel
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
- name: egress
  configMap: {name: {{ include "oarlock.name" (list . "egress") }}}
{{- end }}
