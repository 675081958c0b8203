{{- define "toolwright.labels" -}}
app.kubernetes.io/name: toolwright
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "toolwright.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end }}
{{- define "toolwright.pod" -}}
automountServiceAccountToken: false
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
