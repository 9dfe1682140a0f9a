// Package watches lists the kinds that the manager watches in each of its namespaces, and in the cluster.
package watches

// Kinds returns the resources, by API group, that are watched in each namespace from the start on: where one of them cannot be listed
// and watched, no controller starts, and a manager of some namespaces goes without the namespace. Kinds of routes are not in the list:
// those that cannot be listed are reported by the policies that need them.
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

// ClusterKinds returns the resources without a namespace, by API group, that are watched from the start on: if one of them cannot be listed
// and watched, no controller starts. Kinds of routes are not in the list.
func ClusterKinds() map[string][]string {
	return map[string][]string{"": {"namespaces"}, "hlnr.io": {"clusteranalysistemplates", "clusterfreezes"}}
}

// Verbs returns what the manager needs to do with each of the kinds.
func Verbs() []string { return []string{"list", "watch"} }

// Name returns the name of a resource of an API group, as in messages of the API server.
func Name(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}
