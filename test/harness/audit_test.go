package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// line returns an audit event for a write to a resource.
func line(stage, verb, agent, group, resource, subresource, uri string, code int, at time.Duration) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"x","stage":%q,"requestURI":%q,`+
		`"verb":%q,"user":{"username":"u"},"userAgent":%q,"objectRef":{"resource":%q,"namespace":"n","name":"o","apiGroup":%q,"apiVersion":"v1","subresource":%q},`+
		`"responseStatus":{"metadata":{},"code":%d},"requestReceivedTimestamp":%q,"stageTimestamp":%q}`+"\n",
		stage, uri, verb, agent, resource, group, subresource, code, start.Add(at).Format(metav1.RFC3339Micro), start.Add(at).Format(metav1.RFC3339Micro))
}

func TestAuditWrites(t *testing.T) {
	const ours, theirs = "heighliner/v0.1.0 (linux/amd64)", "kubelet/v1.35.4"
	const done = "ResponseComplete"
	log := line("RequestReceived", "patch", ours, "hlnr.io", "microservices", "status", "/x", 0, 0) +
		line(done, "patch", ours, "hlnr.io", "microservices", "status", "/x?fieldManager=a", 200, 0) +
		line(done, "patch", ours, "hlnr.io", "microservices", "status", "/x", 409, time.Second) +
		line(done, "patch", ours, "hlnr.io", "microservices", "status", "/x?dryRun=All", 200, time.Second) +
		line(done, "get", ours, "hlnr.io", "microservices", "", "/x", 200, time.Second) +
		line(done, "update", ours, "coordination.k8s.io", "leases", "", "/x", 200, time.Second) +
		line(done, "create", ours, "", "pods", "", "/x", 201, 2*time.Second) +
		line(done, "deletecollection", theirs, "", "pods", "", "/x", 200, 2*time.Second) +
		line(done, "delete", ours, "", "pods", "", "/x", 200, -time.Second) +
		`{"kind":"Event","stage":"ResponseComplete","verb":"create","userAgent":"heighliner/x","requestURI":"/healthz"}` + "\n" +
		`{"kind":"Event","stage":"Resp` // incomplete

	status := Writes{UserAgent: ours, Resource: "microservices.hlnr.io/status", Verb: "patch", Count: 2, Refused: 1}
	lease := Writes{UserAgent: ours, Resource: Leases, Verb: "update", Count: 1}
	created := Writes{UserAgent: ours, Resource: "pods", Verb: "create", Count: 1}
	deleted := Writes{UserAgent: ours, Resource: "pods", Verb: "delete", Count: 1}
	for name, test := range map[string]struct {
		log     string
		rotated string
		filter  AuditFilter
		want    []Writes
	}{
		"nothing":   {},
		"our agent": {log: log, filter: AuditFilter{Since: start, UserAgentPrefix: "heighliner/"}, want: []Writes{lease, status, created}},
		"no leases": {log: log, filter: AuditFilter{Since: start, UserAgentPrefix: "heighliner/", IgnoreResources: []string{Leases}}, want: []Writes{status, created}},
		"until": {
			log: log, filter: AuditFilter{Since: start, Until: start.Add(time.Second), UserAgentPrefix: "heighliner/"},
			want: []Writes{{UserAgent: ours, Resource: status.Resource, Verb: "patch", Count: 1}},
		},
		"all writers, at any time": {
			log: log, want: []Writes{lease, status, created, deleted, {UserAgent: theirs, Resource: "pods", Verb: "deletecollection", Count: 1}},
		},
		"rotated meanwhile": {
			rotated: line(done, "create", ours, "", "pods", "", "/x", 201, 0),
			log:     line(done, "create", ours, "", "pods", "", "/x", 201, time.Second),
			filter:  AuditFilter{Since: start},
			want:    []Writes{{UserAgent: ours, Resource: "pods", Verb: "create", Count: 2}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, "audit.log")
			write(t, path, test.log)
			if test.rotated != "" {
				write(t, filepath.Join(folder, "audit-2026-01-02T15-04-06.000.log"), test.rotated)
			}
			got, err := AuditWrites(path, test.filter)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAuditWritesReportsABadLog(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string]string{
		"line 2": line("ResponseComplete", "get", "a", "", "pods", "", "/x", 200, 0) + "{\n",
		"line 1": strings.Repeat("x", maxAuditLine+1) + "\n",
	} {
		path := filepath.Join(folder, strings.ReplaceAll(name, " ", ""))
		write(t, path, content)
		if _, err := AuditWrites(path, AuditFilter{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error is %v, want an error with %s", err, name)
		}
	}
	if _, err := AuditWrites(filepath.Join(folder, "absent.log"), AuditFilter{}); err == nil {
		t.Error("a missing log results in no error")
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
