package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// shared is how long the sample's ImagePolicy may use another ImagePolicy's list of tags. This time equals the
// interval of the sample's ImagePolicy.
const shared = 5 * time.Second

// cleanUp removes the images and the namespace of an earlier demo.
func (s *story) cleanUp(ctx context.Context) error {
	removed, err := s.removeImages(ctx)
	if err != nil {
		return err
	}
	since := time.Now()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := s.cluster.Client.Delete(ctx, ns); client.IgnoreNotFound(err) != nil {
		return err
	}
	return harness.WaitFor(ctx, "the objects and records of an earlier demo to be removed", func(ctx context.Context) (bool, string, error) {
		err := s.cluster.Client.Get(ctx, client.ObjectKeyFromObject(ns), ns)
		gone := apierrors.IsNotFound(err)
		return gone && (removed == 0 || time.Since(since) > shared), string(ns.Status.Phase), client.IgnoreNotFound(err)
	})
}

// removeImages removes the tags of the sample's repository, and returns the number of removed tags.
func (s *story) removeImages(ctx context.Context) (int, error) {
	repo, err := name.NewRepository(s.cluster.Registry+"/"+repository, name.Insecure)
	if err != nil {
		return 0, err
	}
	tags, err := remote.List(repo, remote.WithContext(ctx))
	var answer *transport.Error
	if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, tag := range tags {
		if err := remote.Delete(repo.Tag(tag), remote.WithContext(ctx)); err != nil {
			return 0, fmt.Errorf("delete image %s of an earlier demo: %w", tag, err)
		}
	}
	return len(tags), nil
}

func (s *story) first(ctx context.Context) error {
	if err := s.run(ctx, "apply", "-k", s.samples); err != nil {
		return err
	}
	pushed := time.Now()
	if err := s.push(ctx, "1.0.0", nil); err != nil {
		return err
	}
	if err := s.active(ctx, "1-x", "1.0.0"); err != nil {
		return err
	}
	if err := s.load(ctx, domainV1, "1.0.0 alone"); err != nil {
		return err
	}
	s.note("1.0.0 is active and responds at "+domainV1, true, "after "+since(pushed))
	return s.show(ctx)
}

func (s *story) canary(ctx context.Context) error {
	pushed := time.Now()
	if err := s.push(ctx, "1.1.0", nil); err != nil {
		return err
	}
	seen, err := s.follow(ctx, "1-x", "1.1.0")
	if err != nil {
		return err
	}
	s.note("1.1.0 went through 10% and 50% and is active", slices.Equal(seen, []int32{10, 50, 100}), fmt.Sprintf("weights %v, after %s", seen, since(pushed)))
	for _, weight := range []int{10, 50} {
		s.split(weight, "1.1.0")
	}
	return nil
}

// split compares the weight of a version with the share of requests for which clients saw this
// version. The tolerance is wide, because a demo sends few requests; the end-to-end test measures
// more precisely.
func (s *story) split(weight int, version string) {
	got := s.loads[0].Split(phase(version, int32(weight))).Fraction(version) * 100
	s.note(fmt.Sprintf("clients saw %s for about %d%% of the requests", version, weight), got > float64(weight)-6 && got < float64(weight)+6, fmt.Sprintf("%.1f%%", got))
}

func phase(version string, weight int32) string { return fmt.Sprintf("%s at %d%%", version, weight) }

func (s *story) broken(ctx context.Context) error {
	s.mark("1.2.0 broken")
	if err := s.push(ctx, "1.2.0", map[string]string{"FAIL_READINESS": "true"}); err != nil {
		return err
	}
	var reason, object string
	err := s.until(ctx, "1.2.0 to end in error", func(ms *v1alpha1.Microservice) (bool, string) {
		r := release(ms, "1-x", "1.2.0")
		if r == nil {
			return false, "not observed yet"
		}
		reason, object = r.Reason, r.VersionedMicroservice
		return r.Status == v1alpha1.ReleaseError, string(r.Status)
	})
	if err != nil {
		return err
	}
	var release v1alpha1.VersionedMicroservice
	if err := s.cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: object}, &release); err != nil {
		return err
	}
	s.note("the status of 1.2.0 shows which probe failed, and the response to the probe", reason == v1alpha1.FailureReadinessFailing && release.Status.Failure == reason && strings.Contains(release.Status.Message, "503"), release.Status.Message)
	share := s.loads[0].Split("1.2.0 broken")
	why, code, err := s.ask(ctx, "why", service, "1.2.0")
	if err != nil {
		return err
	}
	s.note("hlnr why answers no, with the same message", code == 3 && strings.Contains(why, "1.2.0 is not live") && strings.Contains(why, "503"), fmt.Sprintf("exit code %d", code))
	s.note("1.2.0 ended in error, and 1.1.0 kept serving", share.Fraction("1.2.0") == 0 && share.Fraction("1.1.0") == 1, reason)
	return s.show(ctx)
}

func (s *story) below(ctx context.Context) error {
	if err := s.push(ctx, "1.1.1", nil); err != nil {
		return err
	}
	seen, err := s.follow(ctx, "1-x", "1.1.1")
	if err != nil {
		return err
	}
	s.note("1.1.1 is active although 1.2.0 is higher, because 1.2.0 failed", slices.Equal(seen, []int32{10, 50, 100}), fmt.Sprintf("weights %v", seen))
	return nil
}

func (s *story) second(ctx context.Context) error {
	s.mark("2.0.0 starts")
	if err := s.push(ctx, "2.0.0", nil); err != nil {
		return err
	}
	if err := s.active(ctx, "2-x", "2.0.0"); err != nil {
		return err
	}
	if err := s.load(ctx, domainV2, "2.0.0 starts"); err != nil {
		return err
	}
	var ms v1alpha1.Microservice
	if err := s.cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, &ms); err != nil {
		return err
	}
	g := group(&ms, "1-x")
	s.note("2.0.0 has its own domain, and group 1.x continues", g != nil && g.Active == "1.1.1", domainV2)
	return s.show(ctx)
}

func (s *story) pin(ctx context.Context) error {
	s.mark("pinned to 1.0.0")
	began := time.Now()
	if err := s.act(ctx, "pin", service, "1.0.0", "--until", "4h", "--reason", "demo"); err != nil {
		return err
	}
	if err := s.moved(ctx, "1-x", "1.0.0"); err != nil {
		return err
	}
	s.note("1.0.0 serves group 1.x again, without steps", true, "after "+since(began))
	return s.show(ctx)
}

func (s *story) unpin(ctx context.Context) error {
	s.mark("unpinned")
	began := time.Now()
	if err := s.act(ctx, "unpin", service); err != nil {
		return err
	}
	if err := s.moved(ctx, "1-x", "1.1.1"); err != nil {
		return err
	}
	s.note("1.1.1 serves group 1.x again, without steps", true, "after "+since(began))
	return nil
}

func (s *story) retention(ctx context.Context) error {
	s.mark("fewer kept")
	if err := s.run(ctx, "patch", "msvc", service, "-n", namespace, "--type=merge", "-p",
		`{"spec":{"updateStrategy":{"minimumAvailable":2}}}`); err != nil {
		return err
	}
	err := s.until(ctx, "1.1.0 to be removed", func(ms *v1alpha1.Microservice) (bool, string) {
		return release(ms, "1-x", "1.1.0") == nil, "kept: " + strings.Join(kept(ms, "1-x"), ", ")
	})
	if err != nil {
		return err
	}
	var ms v1alpha1.Microservice
	if err := s.cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, &ms); err != nil {
		return err
	}
	rest := kept(&ms, "1-x")
	s.note("the two releases that were active last are retained, and 1.1.0 is removed", slices.Equal(rest, []string{"1.1.1", "1.0.0"}), "kept "+strings.Join(rest, ", "))
	return s.show(ctx)
}

// kept returns the versions of a group that have been active.
func kept(ms *v1alpha1.Microservice, slug string) []string {
	var versions []string
	if g := group(ms, slug); g != nil {
		for _, r := range g.Releases {
			if r.Promoted > 0 {
				versions = append(versions, r.SemVer.Version)
			}
		}
	}
	return versions
}

func since(t time.Time) string { return time.Since(t).Round(100 * time.Millisecond).String() }

// until waits until seen accepts the state of the Microservice.
func (s *story) until(ctx context.Context, what string, seen func(*v1alpha1.Microservice) (bool, string)) error {
	return harness.Waiter{Every: 100 * time.Millisecond}.For(ctx, what, func(ctx context.Context) (bool, string, error) {
		var ms v1alpha1.Microservice
		if err := s.cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, &ms); err != nil {
			return false, "", err
		}
		done, detail := seen(&ms)
		return done, detail, nil
	})
}

// active waits until a version is active and available.
func (s *story) active(ctx context.Context, slug, version string) error {
	return s.until(ctx, version+" to be active", func(ms *v1alpha1.Microservice) (bool, string) {
		r := release(ms, slug, version)
		if r == nil {
			return false, "not observed yet"
		}
		return r.Status == v1alpha1.ReleaseActive && r.Available, string(r.Status)
	})
}

// follow waits until a version is active and clients see only this version, and returns the weights
// that the version got. Meanwhile, it marks each phase of the canary when the NetworkPolicy confirms the
// phase.
func (s *story) follow(ctx context.Context, slug, version string) ([]int32, error) {
	s.mark(version + " starts")
	var weights []int32
	marked := int64(0)
	err := s.until(ctx, version+" to be active", func(ms *v1alpha1.Microservice) (bool, string) {
		g, r := group(ms, slug), release(ms, slug, version)
		if r == nil {
			return false, "not observed yet"
		}
		if r.Weight > 0 && (len(weights) == 0 || weights[len(weights)-1] != r.Weight) {
			weights = append(weights, r.Weight)
			s.say("   %s gets %d%%", version, r.Weight)
			s.mark(fmt.Sprintf("%s to %d%%", version, r.Weight))
		}
		if r.Weight > 0 && g.TrafficRevision > marked && s.confirmed(ctx, slug, g.TrafficRevision) {
			marked = g.TrafficRevision
			s.mark(phase(version, r.Weight))
		}
		return r.Status == v1alpha1.ReleaseActive && marked == g.TrafficRevision, fmt.Sprintf("%s at %d%%", r.Status, r.Weight)
	})
	if err != nil {
		return weights, err
	}
	return weights, s.seen(ctx, version)
}

// confirmed reports whether the NetworkPolicy confirmed a revision more than a second ago. A second after
// the confirmation, the gateway has loaded the revision, even though it throttles configuration updates.
func (s *story) confirmed(ctx context.Context, slug string, revision int64) bool {
	var p v1alpha1.NetworkPolicy
	if err := s.cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, &p); err != nil {
		return false
	}
	for _, g := range p.Status.Groups {
		if g.Slug == slug && g.Revision == revision && g.ConfirmedTime != nil {
			return time.Since(g.ConfirmedTime.Time) > time.Second
		}
	}
	return false
}

// moved waits until a version is active and clients see only this version.
func (s *story) moved(ctx context.Context, slug, version string) error {
	if err := s.active(ctx, slug, version); err != nil {
		return err
	}
	return s.seen(ctx, version)
}

// seen waits until clients see only this version.
func (s *story) seen(ctx context.Context, version string) error {
	return sees(ctx, s.loads[0], version)
}

// sees waits until the clients of a load see only this version.
func sees(ctx context.Context, l *harness.Load, version string) error {
	return harness.Waiter{Every: 100 * time.Millisecond}.For(ctx, "clients to see "+version+" only", func(context.Context) (bool, string, error) {
		split := l.Recent(time.Second).Split()
		return split.Fraction(version) == 1, fmt.Sprintf("%.0f%%", split.Fraction(version)*100), nil
	})
}

// answers waits until the gateway serves a domain.
func (s *story) answers(ctx context.Context, domain string) error {
	dialer := &net.Dialer{Timeout: time.Second}
	web := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, s.cluster.Gateway)
		},
	}}
	return harness.WaitFor(ctx, domain+" to answer", func(ctx context.Context) (bool, string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+domain+"/", nil)
		if err != nil {
			return false, "", harness.Permanent(err)
		}
		res, err := web.Do(req)
		if err != nil {
			return false, err.Error(), nil
		}
		return res.StatusCode == http.StatusOK, res.Status, res.Body.Close()
	})
}

// show prints the objects of the service and their statuses.
func (s *story) show(ctx context.Context) error {
	if err := s.run(ctx, "get", "imgp,msvc,vsvc,hnp", "-n", namespace); err != nil {
		return err
	}
	return s.act(ctx, "tree", service)
}
