{{/* Rights, as files/rbac has them: a list of rules for each component and place. */}}

{{/* The rules of a component where autoscalers are: everywhere, or in one namespace. */}}
{{- define "trimtab.rules" -}}
{{- $isCluster := eq .root.Values.rbac.scope "cluster" -}}
{{- $names := list .it.name (printf "%s-%s" .it.name (ternary "cluster" "namespace" $isCluster)) -}}
{{- if and (eq .it.name "recommender") (include "trimtab.readsExternalMetrics" .values) -}}
{{- $names = append $names "recommender-external-metrics" -}}
{{- end -}}
{{- if and $isCluster (eq .it.name "recommender") (include "trimtab.readsKubelets" .values) -}}
{{- $names = append $names "recommender-kubelet" -}}
{{- end -}}
{{- if and $isCluster (eq .it.name "admission-controller") (or .values.registerWebhook (not (include "trimtab.hasFiles" .root))) -}}
{{- $names = append $names "admission-controller-registration" -}}
{{- end -}}
{{- if include "trimtab.secures" .root -}}
{{- $names = append $names "pages" -}}
{{- end -}}
{{- include "trimtab.joinedRules" (dict "root" .root "names" $names) -}}
{{- with .root.Values.rbac.extraRules }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The rules of a component in the namespace where it runs. */}}
{{- define "trimtab.ownRules" -}}
{{- $names := list (printf "%s-own" .it.name) -}}
{{- if and (eq .it.name "admission-controller") (not (include "trimtab.hasFiles" .root)) -}}
{{- $names = append $names "admission-controller-keys" -}}
{{- end -}}
{{- $rules := include "trimtab.joinedRules" (dict "root" .root "names" $names) -}}
{{- if .it.lease -}}
{{- $rules = replace (printf "[%s]" .it.lease) (printf "[%s]" .values.leaderElection.resourceName) $rules -}}
{{- end -}}
{{- $rules -}}
{{- end -}}

{{- define "trimtab.joinedRules" -}}
{{- $texts := list -}}
{{- range .names -}}
{{- $texts = append $texts ($.root.Files.Get (printf "files/rbac/%s.yaml" .) | trim) -}}
{{- end -}}
{{- $texts | compact | join "\n" -}}
{{- end -}}

{{/* Whether the last word about the source of pressure among `extraArgs` is the kubelet. */}}
{{- define "trimtab.readsKubelets" -}}
{{- $reads := "" -}}
{{- range include "trimtab.extraArgs" .extraArgs | fromYamlArray -}}
{{- if hasPrefix "--pressure-source=" . -}}
{{- $reads = ternary "true" "" (eq . "--pressure-source=kubelet") -}}
{{- end -}}
{{- end -}}
{{- $reads -}}
{{- end -}}

{{/* Whether the last word about it among `extraArgs` is yes. */}}
{{- define "trimtab.readsExternalMetrics" -}}
{{- $reads := "" -}}
{{- range include "trimtab.extraArgs" .extraArgs | fromYamlArray -}}
{{- if regexMatch "^--use-external-metrics(=|$)" . -}}
{{- $reads = ternary "" "true" (regexMatch "=(?i:false|f|no|n|0)$" .) -}}
{{- end -}}
{{- end -}}
{{- $reads -}}
{{- end -}}
