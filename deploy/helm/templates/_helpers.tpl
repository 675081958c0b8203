{{- define "toolwright.labels" -}}
app.kubernetes.io/name: toolwright
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "toolwright.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end }}
{{- define "toolwright.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false # a service named toolwright would set TOOLWRIGHT_… variables
{{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" }}
{{- with get $.Values $field }}
{{ $field }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  seccompProfile: { type: RuntimeDefault }
{{- end }}
{{- define "toolwright.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}
{{- define "toolwright.settings" -}}
envFrom:
  - secretRef: { name: {{ .Values.secret }} }
  {{- with .Values.envFrom }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- define "toolwright.mounts" -}}
volumeMounts:
  - { name: tmp, mountPath: /tmp }
  {{- with .Values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- define "toolwright.volumes" -}}
volumes:
  - name: tmp
    emptyDir: {}
  {{- with .Values.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
