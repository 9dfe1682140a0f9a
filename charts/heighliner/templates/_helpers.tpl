{{/* Labels of all objects. The argument is the root context. */}}
{{- define "heighliner.labels" -}}
app.kubernetes.io/name: heighliner
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels that never change on the manager's pods. Deployments and Services use them as selectors. */}}
{{- define "heighliner.selector" -}}
app.kubernetes.io/name: heighliner
app.kubernetes.io/component: manager
{{- end }}

{{/* The image of the manager. */}}
{{- define "heighliner.image" -}}
{{- $image := .Values.image }}
{{- $repository := required "image.repository is required: there is no public image of Heighliner; set it to a repository that your nodes can reach, such as registry.example.com/heighliner" $image.repository }}
{{- if $image.digest }}{{ $repository }}@{{ $image.digest }}{{ else }}{{ $repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/*
The objects in a file in the files folder, with the labels of the chart, and with the namespace of the release instead of heighliner-system.
The argument is a dictionary with the keys root (the root context) and file (the path of the file). Optional keys are kind, to include only
objects of that kind; namespace, the namespace to set on each object; leases, a list that replaces the names of the Leases; and change, a
dictionary that is merged into each object.
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

{{/*
Fails for invalid values that the schema cannot detect: values that contradict each other, and values that refer to objects that do not exist in the cluster.
Without a cluster, as in "helm template", lookup finds nothing, and references are not checked. The argument is the root context.
*/}}
{{- define "heighliner.checks" -}}
{{- $values := .Values }}
{{- $cluster := lookup "v1" "Namespace" "" "kube-system" }}
{{- with $values.namespaces }}
{{- range $field, $names := dict "secrets.read" $values.secrets.read "secrets.track" $values.secrets.track }}
{{- range $name := $names }}
{{- if not (has $name $values.namespaces) }}
{{- fail (printf "%s has %q, which is not in namespaces: the manager does not watch it. Add it to namespaces, or remove it from %s" $field $name $field) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if $cluster }}
{{- range $field, $names := dict "namespaces" $values.namespaces "secrets.read" $values.secrets.read "secrets.track" $values.secrets.track }}
{{- range $name := $names }}
{{- /* Helm can create the namespace of the release together with the release. */}}
{{- if not (or (eq $name $.Release.Namespace) (lookup "v1" "Namespace" "" $name)) }}
{{- fail (printf "%s has %q, which does not exist: create it first, with \"kubectl create namespace %s\", or remove it from %s" $field $name $name $field) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if and $values.metrics.dashboards.enabled (not $values.metrics.enabled) }}
{{- fail "metrics.dashboards.enabled needs metrics.enabled" }}
{{- end }}
{{- range $field, $enabled := dict "metrics.serviceMonitor" $values.metrics.serviceMonitor.enabled "metrics.alerts" $values.metrics.alerts.enabled }}
{{- if and $enabled (not $values.metrics.enabled) }}
{{- fail (printf "%s.enabled needs metrics.enabled" $field) }}
{{- end }}
{{- if and $enabled $cluster (not ($.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) }}
{{- fail (printf "%s.enabled needs the CRDs of the Prometheus Operator, monitoring.coreos.com/v1, which this cluster does not have: install them first, or set %s.enabled to false" $field $field) }}
{{- end }}
{{- end }}
{{- end }}
