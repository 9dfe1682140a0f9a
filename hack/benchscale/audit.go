package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// request is one line of the audit log, with the fields that are needed for the counts.
type request struct {
	at       time.Time // when the API server received it
	ended    time.Time // when the API server responded
	agent    string
	name     string // of the object
	resource string
	verb     string
	dryRun   bool
	failed   bool // the response was an error
}

// lease reports whether the request is for a Lease. Such requests do not count, because they depend on the
// elapsed time and not on the phase.
func (r request) lease() bool { return r.resource == "leases.coordination.k8s.io" }

func (r request) writes() bool {
	switch r.verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// reads reports whether the request is a get or a list. Watches are not counted, because they do not end.
func (r request) reads() bool { return r.verb == "get" || r.verb == "list" }

// budgeted reports whether the request is for a Deployment, ReplicaSet, EndpointSlice or PodDisruptionBudget, or for the status of one of them.
// These requests count against the budget for writes by kube-controller-manager; requests for pods, Endpoints and events count only in the
// total.
func (r request) budgeted() bool {
	object, _, _ := strings.Cut(r.resource, "/")
	switch object {
	case "deployments.apps", "replicasets.apps", "endpointslices.discovery.k8s.io", "poddisruptionbudgets.policy":
		return true
	}
	return false
}

// kind returns the label of the request's row in a table.
func (r request) kind() string {
	kind := r.verb + " " + r.resource
	if r.dryRun {
		kind += " (dry run)"
	}
	return kind
}

// auditLog reads an audit log incrementally.
type auditLog struct {
	path   string
	offset int64
}

// read returns the requests that were logged since the last call.
func (l *auditLog) read() ([]request, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	reader := bufio.NewReaderSize(file, 1<<20)
	var requests []request
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // an incomplete line is read by the next call
			return requests, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		l.offset += int64(len(line))
		r, ok, err := parseRequest(bytes.TrimSpace(line))
		if err != nil {
			return nil, err
		}
		if ok {
			requests = append(requests, r)
		}
	}
}

// parseRequest parses a line. It returns false for requests without an object.
func parseRequest(line []byte) (request, bool, error) {
	var event auditv1.Event
	if err := json.Unmarshal(line, &event); err != nil {
		return request{}, false, fmt.Errorf("read a line of the audit log: %w", err)
	}
	if event.ObjectRef == nil {
		return request{}, false, nil
	}
	r := request{at: event.RequestReceivedTimestamp.Time, ended: event.StageTimestamp.Time, name: event.ObjectRef.Name, agent: agentOf(event.UserAgent), verb: event.Verb, resource: event.ObjectRef.Resource}
	if event.ObjectRef.APIGroup != "" {
		r.resource += "." + event.ObjectRef.APIGroup
	}
	if event.ObjectRef.Subresource != "" {
		r.resource += "/" + event.ObjectRef.Subresource
	}
	if u, err := url.ParseRequestURI(event.RequestURI); err == nil {
		r.dryRun = u.Query().Has("dryRun")
	}
	r.failed = event.ResponseStatus != nil && event.ResponseStatus.Code >= 400
	return r, true, nil
}

// agentOf returns the name of the program in a user agent, without its version and platform.
func agentOf(userAgent string) string {
	name, _, _ := strings.Cut(userAgent, " ")
	name, _, _ = strings.Cut(name, "/")
	return name
}
