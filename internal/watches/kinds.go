// Package watches lists the kinds that the manager watches in each of its namespaces and in the cluster.
package watches

// Kinds returns the resources, by API group, that the manager watches in each namespace from the start. If one of them cannot be listed and watched,
// no controller starts. A manager that is limited to some namespaces therefore omits namespaces in which a resource cannot be listed and watched. The
// list does not include route kinds: if a policy needs a route kind that cannot be listed, the policy reports this.
func Kinds() map[string][]string {
	return map[string][]string{
		"":                 {"configmaps", "pods", "resourcequotas", "services"},
		"apps":             {"deployments"},
		"autoscaling":      {"horizontalpodautoscalers"},
		"batch":            {"cronjobs", "jobs"},
		"discovery.k8s.io": {"endpointslices"},
		"hlnr.io": {
			"analysistemplates", "freezes", "githubrepositories", "imagepolicies", "microservices", "networkpolicies", "notificationpolicies", "versionedmicroservices",
		},
		"policy": {"poddisruptionbudgets"},
	}
}

// ClusterKinds returns the cluster-scoped resources, by API group, that the manager watches from the start. If one of them cannot be listed and
// watched, no controller starts. The list does not include route kinds.
func ClusterKinds() map[string][]string {
	return map[string][]string{"": {"namespaces"}, "hlnr.io": {"clusteranalysistemplates", "clusterfreezes"}}
}

// Verbs returns the verbs that the manager needs for each of the kinds.
func Verbs() []string { return []string{"list", "watch"} }

// Name returns the name of a resource of an API group, in the form that is used in messages from the API server.
func Name(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}
