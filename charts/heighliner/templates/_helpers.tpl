{{/* Labels of all objects. The argument is the root context. */}}
{{- define "heighliner.labels" -}}
app.kubernetes.io/name: heighliner
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels of the manager's pods that never change: Deployments and Services select by them. */}}
{{- define "heighliner.selector" -}}
app.kubernetes.io/name: heighliner
app.kubernetes.io/component: manager
{{- end }}

{{/* The image of the manager. */}}
{{- define "heighliner.image" -}}
{{- $image := .Values.image }}
{{- $repository := required "image.repository is required: there is no public image of Heighliner; set it to a repository that your nodes reach, such as registry.example.com/heighliner" $image.repository }}
{{- if $image.digest }}{{ $repository }}@{{ $image.digest }}{{ else }}{{ $repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/*
Objects of a file below files, with the labels of the chart and the namespace of the release instead of heighliner-system.
The argument is a dictionary: root, the root context; file; and, optionally, kind, for objects of that kind alone; namespace, for
objects that have none; leases, a list that replaces the names of the Leases; and change, a dictionary that is merged into each object.
*/}}
{{- define "heighliner.objects" -}}
{{- $arguments := . }}
{{- $labels := include "heighliner.labels" .root | fromYaml }}
{{- $text := .root.Files.Get .file | replace "heighliner-system" .root.Release.Namespace }}
{{- with $arguments.leases }}{{ $text = replace "[manager.hlnr.io]" (toJson .) $text }}{{ end }}
{{- range $document := regexSplit "(?m)^---$" $text -1 }}
{{- $object := fromYaml $document }}
{{- if and $object.kind (or (not $arguments.kind) (eq $object.kind (toString $arguments.kind))) }}
{{- $_ := set $object.metadata "labels" (merge (dict) ($object.metadata.labels | default dict) $labels) }}
{{- with $arguments.namespace }}{{ $_ := set $object.metadata "namespace" . }}{{ end }}
---
{{ toYaml (mergeOverwrite $object ($arguments.change | default dict)) }}
{{ end }}
{{- end }}
{{- end }}
