package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"time"
)

// These are the pod annotations for scraping, which many charts use.
const (
	scrapeAnnotation     = "prometheus.io/scrape" // The value is "true".
	scrapePortAnnotation = "prometheus.io/port"   // Defaults to the first TCP port that a container declares.
	scrapePathAnnotation = "prometheus.io/path"   // Defaults to /metrics.
)

// notInLabel matches characters that Prometheus label names cannot contain.
var notInLabel = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// scrapeTarget is an element of the list that Prometheus reads over HTTP.
type scrapeTarget struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// podList contains the pod fields that are needed.
type podList struct {
	Items []pod `json:"items"`
}

type pod struct {
	Metadata struct {
		Namespace, Name     string
		Labels, Annotations map[string]string
	} `json:"metadata"`
	Spec struct {
		Containers []struct {
			Ports []struct {
				ContainerPort int
				Protocol      string
			}
		}
	} `json:"spec"`
	Status struct{ Phase, PodIP string } `json:"status"`
}

// targetsOf returns the running pods with the annotations. The result is never nil, because
// Prometheus treats null as an error.
func targetsOf(pods podList) []scrapeTarget {
	targets := []scrapeTarget{}
	for _, p := range pods.Items {
		port := p.scrapePort()
		if p.Metadata.Annotations[scrapeAnnotation] != "true" || p.Status.Phase != "Running" || p.Status.PodIP == "" || port == "" {
			continue
		}
		labels := map[string]string{}
		for name, value := range p.Metadata.Labels { // The usual rule "labelmap" does the same.
			labels[notInLabel.ReplaceAllString(name, "_")] = value
		}
		labels["namespace"], labels["pod"] = p.Metadata.Namespace, p.Metadata.Name
		if path := p.Metadata.Annotations[scrapePathAnnotation]; path != "" {
			labels["__metrics_path__"] = path
		}
		targets = append(targets, scrapeTarget{Targets: []string{net.JoinHostPort(p.Status.PodIP, port)}, Labels: labels})
	}
	return targets
}

// scrapePort returns the port to scrape. It is empty if the pod has no port.
func (p *pod) scrapePort() string {
	if port := p.Metadata.Annotations[scrapePortAnnotation]; port != "" {
		return port
	}
	for _, container := range p.Spec.Containers {
		for _, port := range container.Ports {
			if port.Protocol == "TCP" {
				return strconv.Itoa(port.ContainerPort)
			}
		}
	}
	return ""
}

// targetsHandler returns a handler that lists the pods to scrape, in the format of Prometheus. If the API server
// does not respond, the handler returns an error, and Prometheus keeps its targets. /healthz always succeeds.
func targetsHandler(pods *api) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		var list podList
		if err := pods.get(r.Context(), "/api/v1/pods?resourceVersion=0", &list); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(targetsOf(list)) // This fails only if the client has disconnected.
	})
	return mux
}

// serveTargets serves until the process exits.
func serveTargets(listen string, pods *api) error {
	server := &http.Server{Addr: listen, Handler: targetsHandler(pods), ReadHeaderTimeout: 10 * time.Second}
	if err := server.ListenAndServe(); err != nil {
		return fmt.Errorf("serve scrape targets: %w", err)
	}
	return nil
}
