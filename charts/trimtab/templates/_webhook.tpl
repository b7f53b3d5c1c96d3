{{/* What only the admission controller has: its certificate and its registration. */}}

{{/* Whether its certificate comes as files, instead of being made by itself. */}}
{{- define "trimtab.hasFiles" -}}
{{- with .Values.admissionController -}}
{{- if or .tls.existingSecret .certManager.enabled }}true{{ end -}}
{{- end -}}
{{- end -}}

{{/* Whether it registers itself; without cluster rights it cannot. */}}
{{- define "trimtab.registersItself" -}}
{{- if and .Values.admissionController.registerWebhook (eq .Values.rbac.scope "cluster") }}true{{ end -}}
{{- end -}}

{{- define "trimtab.webhookArguments" -}}
{{- with .Values.admissionController -}}
- --webhook-service={{ .service.name }}
- --register-webhook={{ include "trimtab.registersItself" $ | default "false" }}
- --webhook-timeout-seconds={{ .mutatingWebhookConfiguration.timeoutSeconds }}
- --webhook-failure-policy-fail={{ eq .mutatingWebhookConfiguration.failurePolicy "Fail" }}
{{- if include "trimtab.hasFiles" $ }}
- --reload-cert=true
{{- end }}
{{- if and .certManager.enabled (include "trimtab.registersItself" $) }}
- --webhook-inject-ca-from={{ $.Release.Namespace }}/{{ include "trimtab.fullname" $ }}-webhook
{{- end }}
{{- end }}
{{- end -}}

{{/* The volume of certificate files, by the names that the component looks for. */}}
{{- define "trimtab.certificateVolume" -}}
- name: tls-certs
  secret:
{{- if .Values.admissionController.certManager.enabled }}
    secretName: {{ include "trimtab.fullname" . }}-webhook
    items:
      - {key: ca.crt, path: caCert.pem}
      - {key: tls.crt, path: serverCert.pem}
      - {key: tls.key, path: serverKey.pem}
{{- else }}
    secretName: {{ .Values.admissionController.tls.existingSecret }}
{{- end }}
{{- end -}}
