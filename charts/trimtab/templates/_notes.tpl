{{/* What NOTES.txt has to know of the values. */}}

{{/* The last value of `.flag` in `.args`, some `extraArgs`: it is the one that counts. A flag alone is `true`. */}}
{{- define "trimtab.givenFlag" -}}
{{- $name := printf "--%s" .flag -}}
{{- $found := "" -}}
{{- $isOpen := false -}}
{{- range include "trimtab.extraArgs" .args | fromYamlArray -}}
{{- if eq . $name -}}
{{- $found = "true" -}}
{{- $isOpen = true -}}
{{- else -}}
{{- if hasPrefix (printf "%s=" $name) . -}}
{{- $found = trimPrefix (printf "%s=" $name) . -}}
{{- else if and $isOpen (not (hasPrefix "-" .)) -}}
{{- $found = . -}}
{{- end -}}
{{- $isOpen = false -}}
{{- end -}}
{{- end -}}
{{- $found -}}
{{- end -}}

{{/* Whether a flag of `extraArgs` is given and switched off. */}}
{{- define "trimtab.switchedOff" -}}
{{- if has (include "trimtab.givenFlag" . | lower) (list "false" "f" "0") }}true{{ end -}}
{{- end -}}

{{/* The one namespace that a component looks at, by `extraArgs` too; empty for all of them. */}}
{{- define "trimtab.watchedBy" -}}
{{- include "trimtab.givenFlag" (dict "args" .values.extraArgs "flag" "vpa-object-namespace") | default (include "trimtab.watched" .root) -}}
{{- end -}}

{{/* The components of a release, a line each. */}}
{{- define "trimtab.installed" -}}
{{- range $key, $it := include "trimtab.components" . | fromYaml }}
{{- $values := index $.Values $key }}
{{- if $values.enabled }}
{{- $given := dict "root" $ "values" $values "it" $it }}
{{- $copies := int (include "trimtab.replicas" $values) }}
  {{ $it.name }}: {{ $copies }} {{ ternary "copy" "copies" (eq $copies 1) }} of {{ include "trimtab.image" $given }}
  {{- with include "trimtab.watchedBy" $given }}, for the namespace {{ . }} alone{{ end }}
{{- end }}
{{- end }}
{{- end -}}
