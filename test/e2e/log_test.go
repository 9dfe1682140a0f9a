//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// managerLog follows the logs of all managers, including managers that start later, and stores suspicious lines.
type managerLog struct {
	client kubernetes.Interface
	cancel context.CancelFunc
	done   sync.WaitGroup
	since  metav1.Time

	mu        sync.Mutex
	following map[string]bool // The followed containers.
	lines     map[string]bool // The suspicious lines.
	restarts  []restart       // The restarts of the API server.
	count     int
}

// restart is a restart of the API server by a test, from the command until the server responds.
type restart struct{ from, to time.Time }

// suspicious matches errors, panics and denied requests.
var suspicious = regexp.MustCompile(`"level":"(error|dpanic|panic|fatal)"|panic|forbidden|goroutine [0-9]+ \[|DATA RACE`)

// explained lists the errors that the faults in these tests cause.
var explained = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`connection refused|connection reset by peer|http2: client connection lost|unexpected EOF|"error":"EOF"|apiserver not ready|the server is currently unable|Client\.Timeout|TLS handshake|context deadline exceeded|server was unable to return a response`),
		"a test stops and starts the API server"},
	{regexp.MustCompile(`leader election lost|[Ff]ailed to renew lease|[Ee]rror retrieving (resource|lease) lock|[Ff]ailed to update lease|[Ee]rror initially creating lease`),
		"the Lease is lost when the API server stops"},
	{regexp.MustCompile(`RBAC: \[?clusterrole\.rbac\.authorization\.k8s\.io .* not found`), rolesUnread},
	{regexp.MustCompile(`"Failed to watch".*context canceled`), "a manager ends its watches when a test stops it"},
	{regexp.MustCompile(`because it is being terminated|Server rejected event .*namespaces \\"[^"]+" not found`), "a test deletes a namespace while a release is in progress"},
}

// rolesUnread is the explanation of denied requests.
const rolesUnread = "an API server that has just started has not read the roles yet"

// refusal matches a denied request from the manager, and stamp matches the time in a line.
var (
	refusal = regexp.MustCompile(`is forbidden: User \\?"system:serviceaccount:heighliner-system:`)
	stamp   = regexp.MustCompile(`"ts":"([^"]+)"`)
)

func followManager(config *rest.Config) (*managerLog, error) {
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client for logs: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &managerLog{client: c, cancel: cancel, since: metav1.Now(), following: map[string]bool{}, lines: map[string]bool{}}
	l.done.Go(func() { l.run(ctx) })
	return l, nil
}

func (l *managerLog) stop() {
	l.cancel()
	l.done.Wait()
}

// run follows new containers of the manager.
func (l *managerLog) run(ctx context.Context) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		pods, err := l.client.CoreV1().Pods(managerNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=manager"})
		if err == nil { // An API server that a test has stopped is started again later.
			for i := range pods.Items {
				l.check(ctx, &pods.Items[i])
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (l *managerLog) check(ctx context.Context, pod *corev1.Pod) {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running == nil {
			continue
		}
		l.mu.Lock()
		known := l.following[s.ContainerID]
		l.following[s.ContainerID] = true
		l.mu.Unlock()
		if !known {
			l.done.Go(func() { l.follow(ctx, pod.Name, s.ContainerID) })
		}
	}
}

// follow reads the log of a container until the container stops. If the API server stops first, run calls follow
// again.
func (l *managerLog) follow(ctx context.Context, pod, container string) {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.following, container)
	}()
	stream, err := l.client.CoreV1().Pods(managerNamespace).GetLogs(pod, &corev1.PodLogOptions{Container: managerContainer, Follow: true, SinceTime: &l.since}).Stream(ctx)
	if err != nil {
		return
	}
	defer stream.Close()
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		l.mu.Lock()
		l.count++
		if line := lines.Text(); suspicious.MatchString(line) {
			l.lines[line] = true
		}
		l.mu.Unlock()
	}
}

// unexplained returns the suspicious lines that no fault in the tests explains, and the other suspicious
// lines, grouped by their explanation.
func (l *managerLog) unexplained() (lines []string, others map[string][]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	others = map[string][]string{}
	for _, line := range slices.Sorted(maps.Keys(l.lines)) {
		if why := l.explanation(line); why != "" {
			others[why] = append(others[why], line)
			continue
		}
		lines = append(lines, line)
	}
	return lines, others
}

// restarted records that a test has restarted the API server, and when.
func (l *managerLog) restarted(from time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restarts = append(l.restarts, restart{from: from, to: time.Now()})
}

// explanation returns the explanation of a line. Panics have no explanation. The caller holds the lock.
func (l *managerLog) explanation(line string) string {
	if strings.Contains(line, "panic") || strings.Contains(line, "goroutine ") {
		return ""
	}
	for _, e := range explained {
		if e.pattern.MatchString(line) {
			return e.why
		}
	}
	if found := stamp.FindStringSubmatch(line); found != nil && refusal.MatchString(line) {
		at, err := time.Parse(time.RFC3339, found[1])
		for _, r := range l.restarts {
			// Timestamps in the log have no fractional seconds.
			if err == nil && !at.Before(r.from.Truncate(time.Second)) && at.Before(r.to.Add(10*time.Second)) {
				return rolesUnread
			}
		}
	}
	return ""
}

// verdict prints the manager's unexplained lines, and returns true if there are no such lines.
func (l *managerLog) verdict() bool {
	lines, explained := l.unexplained()
	fmt.Printf("manager's log: %d lines; %d errors, panics, and denials that no fault in the tests explains\n", l.count, len(lines))
	for _, why := range slices.Sorted(maps.Keys(explained)) {
		fmt.Printf("  %d explained: %s, such as %.600s\n", len(explained[why]), why, explained[why][0])
	}
	for _, line := range lines[:min(len(lines), 30)] {
		fmt.Println("  unexplained:", line)
	}
	return len(lines) == 0
}
