{{/*
The components, by their keys in the values: what each is called, and what it cannot be told.
`lease` is the name of its lease in files/rbac, for components of which one copy leads.
*/}}
{{- define "trimtab.components" -}}
recommender:
  name: recommender
  port: 8942
  health: 8952
  lease: vpa-recommender-lease
updater:
  name: updater
  port: 8943
  health: 8953
  lease: vpa-updater
admissionController:
  name: admission-controller
  port: 8944
  health: 8954
roles:
  name: roles
  port: 8945
  health: 8955
  lease: trimtab-roles
{{- end -}}

{{/* Whether metrics and pages are for callers with a right: tokens are reviewed by a right of the cluster. */}}
{{- define "trimtab.secures" -}}
{{- if and .Values.metrics.secure (eq .Values.rbac.scope "cluster") }}true{{ end -}}
{{- end -}}

{{/* How many copies: `replicas`, or `replicaCount` as another chart calls it. */}}
{{- define "trimtab.replicas" -}}
{{- ternary .replicas .replicaCount (kindIs "invalid" .replicaCount) -}}
{{- end -}}

{{/* Whether copies take turns: as told, or else if there are several. */}}
{{- define "trimtab.elects" -}}
{{- $told := dig "leaderElection" "enabled" nil . -}}
{{- if kindIs "invalid" $told -}}
{{- if gt (int (include "trimtab.replicas" .)) 1 }}true{{ end -}}
{{- else if $told -}}true
{{- end -}}
{{- end -}}

{{/* The image of a component: what it does not say itself is said once for all. */}}
{{- define "trimtab.image" -}}
{{- $all := .root.Values.image -}}
{{- $tag := .values.image.tag | default $all.tag | default .root.Chart.AppVersion -}}
{{- $repository := .values.image.repository | default $all.repository -}}
{{- printf "%s%s%s" $repository (ternary "@" ":" (hasPrefix "sha256:" $tag)) $tag -}}
{{- end -}}

{{- define "trimtab.account" -}}
{{- .values.serviceAccount.name | default (printf "%s-%s" (include "trimtab.fullname" .root) .it.name) -}}
{{- end -}}

{{/* The flags of a component as a list: what the values mean, then `extraArgs`, of which the last word counts. */}}
{{- define "trimtab.arguments" -}}
- --v={{ .values.logLevel }}
- --strict-flags=true
{{- if include "trimtab.secures" .root }}
- --metrics-secure
- --health-address=:{{ .it.health }}
{{- end }}
{{- with include "trimtab.watched" .root }}
- --vpa-object-namespace={{ . }}
{{- end }}
{{- if and .it.lease (include "trimtab.elects" .values) }}
{{- with .values.leaderElection }}
- --leader-elect=true
- --leader-elect-resource-name={{ .resourceName }}
- --leader-elect-resource-namespace={{ .resourceNamespace | default $.root.Release.Namespace }}
- --leader-elect-lease-duration={{ .leaseDuration }}
- --leader-elect-renew-deadline={{ .renewDeadline }}
- --leader-elect-retry-period={{ .retryPeriod }}
{{- end }}
{{- end }}
{{- if eq .it.name "admission-controller" }}
{{ include "trimtab.webhookArguments" .root }}
{{- end }}
{{- include "trimtab.extraArgs" .values.extraArgs }}
{{- end -}}

{{/* `extraArgs`, a list of whole flags or a map of flags and values, as a list. */}}
{{- define "trimtab.extraArgs" -}}
{{- if kindIs "map" . }}
{{- range $flag, $value := . }}
- {{ printf "--%s%s" $flag (include "trimtab.flagValue" $value) | quote }}
{{- end }}
{{- else }}
{{- range . }}
- {{ . | toString | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What follows the name of a flag; Helm reads whole numbers as floats, and would write 1e+06. */}}
{{- define "trimtab.flagValue" -}}
{{- if kindIs "invalid" . -}}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
={{ int64 . }}
{{- else -}}
={{ . }}
{{- end -}}
{{- end -}}
