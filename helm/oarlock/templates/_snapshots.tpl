{{/* A pod that saves a snapshot and removes old ones. List: context, part, first word of the file's name. */}}
{{- define "oarlock.snapshotPod" -}}
{{- $c := index . 0 }}{{ $part := index . 1 }}
metadata:
  labels: {{ include "oarlock.labels" (list $c $part) | nindent 4 }}
  {{- with $c.Values.podAnnotations }}
  annotations: {{ toYaml . | nindent 4 }}
  {{- end }}
spec: {{ include "oarlock.pod" (list $c $part "parts") | nindent 2 }}
  restartPolicy: OnFailure
  containers:
    - name: snapshot
      {{- include "oarlock.image" $c | nindent 6 }}
      {{- include "oarlock.container" $c | nindent 6 }}
      command: [/bin/sh, -ec]
      args:
        - |
          oarlock snapshot save "/snapshots/{{ index . 2 }}-$(date -u +%Y%m%dT%H%M%SZ).snap" --kubeconfig /keys/kubeconfig
          ls -1t /snapshots/{{ index . 2 }}-*.snap | tail -n +{{ add1 (int $c.Values.snapshots.keep) }} | xargs -r rm --
      resources: {{ toYaml $c.Values.snapshots.resources | nindent 8 }}
      volumeMounts:
        - {name: keys, mountPath: /keys, readOnly: true}
        - {name: snapshots, mountPath: /snapshots}
  volumes:
    {{- include "oarlock.keys" (list $c "user" (list "kubeconfig")) | nindent 4 }}
    - name: snapshots
      persistentVolumeClaim: {claimName: {{ include "oarlock.name" (list $c "snapshots") }}}
{{- end }}
