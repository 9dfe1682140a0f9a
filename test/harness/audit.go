package harness

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// maxAuditLine is the maximum size of one event; at the Metadata level, an event is at most a few kilobytes
// in size.
const maxAuditLine = 1 << 20

// Leases is the resource of leader election, for AuditFilter.IgnoreResources.
const Leases = "leases.coordination.k8s.io"

// AuditFilter selects the writes to count.
type AuditFilter struct {
	// Since and Until limit the arrival time of the request. Until itself is excluded; a zero Until means no limit.
	Since, Until time.Time
	// UserAgentPrefix is the beginning of the writer's user agent, such as "heighliner/". If it is empty, all writers are counted.
	UserAgentPrefix string
	// IgnoreResources are resources that are not counted, such as "leases.coordination.k8s.io", or "pods" for the core group.
	IgnoreResources []string
}

// Writes is the number of requests with the same user agent, resource, and verb.
type Writes struct {
	UserAgent string
	// Resource is resource.group with the subresource after a slash, such as "microservices.hlnr.io/status".
	Resource string
	Verb     string
	Count    int
	// Refused is the number of these requests with an error response, such as a conflict.
	Refused int
}

// String formats the counts as one line of a table.
func (w Writes) String() string {
	return fmt.Sprintf("%d x %s %s by %s (%d refused)", w.Count, w.Verb, w.Resource, w.UserAgent, w.Refused)
}

// AuditWrites counts the create, update, patch, delete, and deletecollection requests in an API server's
// audit log, which contains one JSON event per line. It groups and sorts them by user agent, resource,
// and verb. Each request counts once, whether it was successful or not; dry runs do not count. Rotated files
// next to path are included. An incomplete last line is omitted, because it is still being written.
func AuditWrites(path string, filter AuditFilter) ([]Writes, error) {
	files, err := auditFiles(path, filter.Since)
	if err != nil {
		return nil, err
	}
	counts := map[Writes]*Writes{} // The counts, by the fields that identify a group.
	for _, file := range files {
		if err := readAudit(file, func(event *auditv1.Event) { filter.count(event, counts) }); err != nil {
			return nil, fmt.Errorf("read audit log %s: %w", file, err)
		}
	}
	var writes []Writes
	for _, group := range counts {
		writes = append(writes, *group)
	}
	slices.SortFunc(writes, func(a, b Writes) int {
		return cmp.Or(cmp.Compare(a.UserAgent, b.UserAgent), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
	return writes, nil
}

// auditFiles returns the log and the files that have been rotated since the given time: audit-TIME.log next to audit.log.
func auditFiles(path string, since time.Time) ([]string, error) {
	extension := filepath.Ext(path)
	rotated, err := filepath.Glob(strings.TrimSuffix(path, extension) + "-*" + extension)
	if err != nil {
		return nil, fmt.Errorf("find rotated audit logs: %w", err)
	}
	files := []string{path}
	for _, file := range rotated {
		if info, err := os.Stat(file); err == nil && !info.ModTime().Before(since) {
			files = append(files, file)
		}
	}
	return files, nil
}

func readAudit(path string, each func(*auditv1.Event)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	reader := bufio.NewReaderSize(file, maxAuditLine)
	for number := 1; ; number++ {
		line, err := reader.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("line %d: %w", number, err)
		}
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		each(&event)
	}
}

func (f AuditFilter) count(event *auditv1.Event, counts map[Writes]*Writes) {
	if !f.matches(event) {
		return
	}
	key := Writes{UserAgent: event.UserAgent, Resource: resourceOf(event.ObjectRef), Verb: event.Verb}
	if event.ObjectRef.Subresource != "" {
		key.Resource += "/" + event.ObjectRef.Subresource
	}
	group := counts[key]
	if group == nil {
		group = &Writes{UserAgent: key.UserAgent, Resource: key.Resource, Verb: key.Verb}
		counts[key] = group
	}
	group.Count++
	if event.ResponseStatus != nil && event.ResponseStatus.Code >= 400 {
		group.Refused++
	}
}

func (f AuditFilter) matches(event *auditv1.Event) bool {
	arrived := event.RequestReceivedTimestamp.Time
	switch {
	case event.Stage != auditv1.StageResponseComplete && event.Stage != auditv1.StagePanic: // A request has an event for each stage.
		return false
	case !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, event.Verb):
		return false
	case event.ObjectRef == nil || isDryRun(event.RequestURI):
		return false
	case !strings.HasPrefix(event.UserAgent, f.UserAgentPrefix):
		return false
	case arrived.Before(f.Since) || !f.Until.IsZero() && !arrived.Before(f.Until):
		return false
	}
	return !slices.Contains(f.IgnoreResources, resourceOf(event.ObjectRef))
}

func resourceOf(object *auditv1.ObjectReference) string {
	if object.APIGroup == "" {
		return object.Resource
	}
	return object.Resource + "." + object.APIGroup
}

func isDryRun(requestURI string) bool {
	parsed, err := url.ParseRequestURI(requestURI)
	return err == nil && parsed.Query().Has("dryRun")
}
