{{- define "gvList" -}}
{{- $groupVersions := . -}}
# Fields of all kinds

"make docs-api" writes this page from the Go types. The pages on the [kinds](README.md) explain the fields with examples.

{{ range $groupVersions }}
{{ template "gvDetails" . }}
{{ end }}

{{- end -}}
