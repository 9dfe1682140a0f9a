//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestConfigurationRollback changes the content of a ConfigMap. The change creates a release of the same
// version, which goes through the canary steps. A pin to an older release restores the content with which that
// release ran: its pods serve this content although the ConfigMap has changed.
func TestConfigurationRollback(t *testing.T) {
	s := newService(t, "configuration").steps(pausing(50, 2*time.Second))
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "settings"}, Data: map[string]string{"APP": "azure"}}
	s.create(settings)
	s.ms.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: settings.Name}},
	}}
	s.start("1.0.0")
	l := s.load(30, false)
	s.answersWith("azure 1.0.0")

	t.Log("new content creates a release of the same version")
	l.Mark("new content")
	s.configure(settings, "crimson", "1.0.0")
	s.active("1.0.0")
	s.answersWith("crimson 1.0.0")

	s.push("1.1.0")
	s.active("1.1.0")
	s.answersWith("crimson 1.1.0")
	s.configure(settings, "ochre", "1.1.0")
	s.active("1.1.0")
	s.answersWith("ochre 1.1.0")

	t.Log("a pin restores the old content")
	l.Mark("pinned")
	began := time.Now()
	s.pin("1.0.0")
	s.active("1.0.0")
	s.sees(l, "1.0.0")
	s.answersWith("crimson 1.0.0")
	t.Logf("1.0.0 served its own content %s after the pin", time.Since(began).Round(100*time.Millisecond))
	s.pin("")
	s.active("1.1.0")
	s.answersWith("ochre 1.1.0")

	t.Log("the same content again does not create a release")
	before := s.rows()
	change(t, settings, func(c *corev1.ConfigMap) { c.Labels = map[string]string{"touched": "yes"} })
	quiet(t, 5*time.Second)
	for _, name := range s.rows() {
		if !slices.Contains(before, name) {
			t.Errorf("a label on the ConfigMap created the release %s", name)
		}
	}

	s.copies()
	s.unreported("azure", "crimson", "ochre")
	verdict(t, l)
}

// configure changes the content of the ConfigMap, and waits until another release of the version is active.
func (s *service) configure(settings *corev1.ConfigMap, app, version string) {
	s.t.Helper()
	before := s.release(version).VersionedMicroservice
	change(s.t, settings, func(c *corev1.ConfigMap) { c.Data["APP"] = app })
	s.until(fmt.Sprintf("a release of %s with %s", version, app), func(ms *v1alpha1.Microservice) (bool, string) {
		r := row(ms, version)
		return r.VersionedMicroservice != before, r.VersionedMicroservice
	})
}

// rows returns the names of the group's releases.
func (s *service) rows() []string {
	s.t.Helper()
	var ms v1alpha1.Microservice
	if err := env.Client.Get(s.t.Context(), s.key(), &ms); err != nil {
		s.t.Fatal(err)
	}
	var names []string
	if g := group(&ms); g != nil {
		for _, r := range g.Releases {
			names = append(names, r.VersionedMicroservice)
		}
	}
	slices.Sort(names)
	return names
}

// answersWith waits until twenty consecutive responses contain the given text.
func (s *service) answersWith(want string) {
	s.t.Helper()
	dialer := &net.Dialer{Timeout: time.Second}
	web := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, env.Gateway)
		},
	}}
	same := 0
	wait(s.t, "responses to be "+want, func(ctx context.Context) (bool, string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.host()+"/", nil)
		if err != nil {
			return false, "", err
		}
		res, err := web.Do(req)
		if err != nil {
			return false, "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		text := strings.TrimSpace(string(body))
		if same++; text != want {
			same = 0
		}
		return same == 20, text, err
	})
}

// copies waits until each release has an immutable copy of its ConfigMap, and no other copy remains.
func (s *service) copies() {
	s.t.Helper()
	wait(s.t, "a copy for each release", func(ctx context.Context) (bool, string, error) {
		var list corev1.ConfigMapList
		if err := env.Client.List(ctx, &list, client.InNamespace(s.namespace), client.HasLabels{v1alpha1.LabelRelease}); err != nil {
			return false, "", err
		}
		var of []string
		for _, c := range list.Items {
			if c.Immutable == nil || !*c.Immutable {
				return false, c.Name + " is mutable", nil
			}
			of = append(of, c.Labels[v1alpha1.LabelRelease])
		}
		slices.Sort(of)
		rows := s.rows()
		return slices.Equal(of, rows), fmt.Sprintf("copies of %v for releases %v", of, rows), nil
	})
}

// unreported checks that the ConfigMap's contents are not in other objects, which more users can read.
func (s *service) unreported(contents ...string) {
	s.t.Helper()
	text := kubectl(s.t, "", "get", "events,imgp,msvc,vsvc,hnp,deploy,pods", "-n", s.namespace, "-o", "yaml")
	log := kubectl(s.t, "", "logs", "-n", managerNamespace, "deployment/"+managerName, "--since=5m")
	for _, content := range contents {
		if strings.Contains(text, content) {
			s.t.Errorf("the content %s of the ConfigMap is in objects or events", content)
		}
		if strings.Contains(log, content) {
			s.t.Errorf("the content %s of the ConfigMap is in the manager's log", content)
		}
	}
}
