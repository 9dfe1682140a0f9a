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

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/test/harness"
)

// These are the names in hack/demo/previews. The stand-in for GitHub listens on an address that the manager
// can reach.
const (
	gitHubAddress    = "10.250.0.1:8010"
	gitHubRepository = "acme/shop"
	gitHubToken      = "demo"
	branch           = "feature/greeting"
	slug             = "feature-greeting-1"
	domainPreview    = slug + ".preview.localhost"
	forkSlug         = "patch-1-2"
	domainFork       = forkSlug + ".preview.localhost"
)

// standIn is the stand-in for GitHub, with the commits that were pushed to it.
type standIn struct {
	server *githubtest.Server
	repo   *githubtest.Repository
	// heads are the head commits of pull request 1 that have an image, in order.
	heads []string
}

// gitHub starts the stand-in for GitHub. The stand-in stops at the end of the demo.
func (s *story) gitHub(context.Context) error {
	server, err := githubtest.New(githubtest.Options{})
	if err != nil {
		return err
	}
	listener, err := s.cluster.ListenInside(gitHubAddress)
	if err != nil {
		return err
	}
	web := &http.Server{Handler: server, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.say("   the stand-in for GitHub stopped: %v", err)
		}
	}()
	server.AddToken(gitHubToken, githubtest.Access{Login: "heighliner-demo"})
	s.hub = &standIn{server: server, repo: server.AddRepository(gitHubRepository)}
	s.say("   This cluster cannot reach GitHub. A server in this process simulates GitHub at %s.", gitHubAddress)
	s.say("   It responds to some of the requests that GitHub's REST reference describes, and rejects all other requests.")
	return nil
}

func (s *story) opened(ctx context.Context) error {
	if err := s.run(ctx, "apply", "-k", s.samples); err != nil {
		return err
	}
	n := s.hub.repo.Open(githubtest.PullRequest{Title: "Greet politely", HeadRef: branch})
	s.say("   opened pull request %d from branch %s, commit %.7s", n, branch, s.head(1))
	err := s.deployment(ctx, s.head(1), "queued")
	if err != nil {
		return err
	}
	var policy v1alpha1.ImagePolicy
	if err := s.get(ctx, &policy); err != nil {
		return err
	}
	waits := slices.ContainsFunc(policy.Status.Candidates, func(c v1alpha1.RefusedCandidate) bool {
		return strings.HasPrefix(s.head(1), c.Version) || c.Version == s.head(1)
	})
	s.note("the commit is known, and is waiting for its image", waits && len(policy.Status.Releases) == 0, why(policy.Status.Candidates))
	var releases v1alpha1.VersionedMicroserviceList
	if err := s.cluster.Client.List(ctx, &releases, client.InNamespace(namespace)); err != nil {
		return err
	}
	s.note("nothing runs, and the deployment on GitHub is queued", len(releases.Items) == 0, "")
	return s.run(ctx, "get", "ghr,imgp,msvc", "-n", namespace)
}

func (s *story) built(ctx context.Context) error {
	pushed := time.Now()
	if err := s.build(ctx); err != nil {
		return err
	}
	if err := s.active(ctx, slug, s.head(1)); err != nil {
		return err
	}
	if err := s.load(ctx, domainPreview, "first commit"); err != nil {
		return err
	}
	s.note("the preview responds at "+domainPreview, true, "after "+since(pushed))
	if err := s.deployment(ctx, s.head(1), "success"); err != nil {
		return err
	}
	url := s.lastStatus(s.head(1)).EnvironmentURL
	s.note("the deployment on GitHub has state success and the URL of the preview", strings.Contains(url, domainPreview), url)
	err := harness.WaitFor(ctx, "the comment on the pull request", func(context.Context) (bool, string, error) {
		comments := s.hub.repo.Comments(1)
		return len(comments) == 1 && strings.Contains(comments[0].Body, domainPreview), fmt.Sprintf("%d comments", len(comments)), nil
	})
	s.note("one comment on the pull request shows the URL", err == nil, "")
	return errors.Join(err, s.show(ctx))
}

// pushes pushes three commits and, some time after each commit, its image.
func (s *story) pushes(ctx context.Context) error {
	for i := range 3 {
		previous := s.head(1)
		sha := s.hub.repo.Push(1)
		s.say("   pushed commit %.7s, whose image is being built", sha)
		s.mark(fmt.Sprintf("commit %d without its image", i+2))
		if err := s.deployment(ctx, sha, "queued"); err != nil {
			return err
		}
		share := s.loads[0].Recent(time.Second).Split()
		s.note(fmt.Sprintf("%.7s keeps serving while %.7s has no image", previous, sha), share.Fraction(short(previous)) == 1, "")
		s.mark(fmt.Sprintf("commit %d", i+2))
		if err := s.build(ctx); err != nil {
			return err
		}
		if err := s.active(ctx, slug, sha); err != nil {
			return err
		}
		if err := s.seen(ctx, short(sha)); err != nil {
			return err
		}
		if err := s.deployment(ctx, sha, "success"); err != nil {
			return err
		}
		if err := s.deployment(ctx, previous, "inactive"); err != nil {
			return err
		}
	}
	s.note("each of the three commits replaced the previous one when it was ready", true, "")
	return s.show(ctx)
}

func (s *story) fork(ctx context.Context) error {
	n := s.hub.repo.Open(githubtest.PullRequest{Title: "Mine some coins", HeadRef: "patch-1", Fork: "stranger/shop", Author: "stranger", Association: "NONE"})
	s.say("   opened pull request %d from a fork, and pushed an image of its head commit", n)
	if err := s.image(ctx, n); err != nil {
		return err
	}
	err := harness.WaitFor(ctx, "the fork to be known", func(ctx context.Context) (bool, string, error) {
		var repo v1alpha1.GitHubRepository
		err := s.get(ctx, &repo)
		return err == nil && len(repo.Status.PullRequests) == 2, fmt.Sprintf("%d pull requests", len(repo.Status.PullRequests)), err
	})
	if err != nil {
		return err
	}
	if err := s.pause(ctx, 8*time.Second); err != nil {
		return err
	}
	var ms v1alpha1.Microservice
	if err := s.get(ctx, &ms); err != nil {
		return err
	}
	s.note("code from a fork does not run without approval", group(&ms, forkSlug) == nil, "")
	s.say("   a maintainer reads the code, and adds the label that contains the commit")
	s.hub.repo.Label(n, "preview:"+s.head(n))
	if err := s.active(ctx, forkSlug, s.head(n)); err != nil {
		return err
	}
	approved := s.head(n)
	sha := s.hub.repo.Push(n)
	s.say("   the contributor pushes %.7s, with an image", sha)
	if err := s.image(ctx, n); err != nil {
		return err
	}
	if err := s.pause(ctx, 10*time.Second); err != nil {
		return err
	}
	if err := s.get(ctx, &ms); err != nil {
		return err
	}
	s.note("the approval applies only to the reviewed commit", release(&ms, forkSlug, sha) == nil, fmt.Sprintf("approved %.7s, pushed %.7s", approved, sha))
	return nil
}

func (s *story) closed(ctx context.Context) error {
	s.loads[0].Stop()
	closed := time.Now()
	s.hub.repo.Close(1, true)
	s.hub.repo.Close(2, false)
	s.say("   merged pull request 1, and closed pull request 2")
	err := s.until(ctx, "both previews to be removed", func(ms *v1alpha1.Microservice) (bool, string) {
		return len(ms.Status.ReleaseGroups) == 0, fmt.Sprintf("%d groups", len(ms.Status.ReleaseGroups))
	})
	if err != nil {
		return err
	}
	err = harness.WaitFor(ctx, "releases, pods, and domains to be removed", func(ctx context.Context) (bool, string, error) {
		var releases v1alpha1.VersionedMicroserviceList
		var pods corev1.PodList
		var policy v1alpha1.NetworkPolicy
		in := client.InNamespace(namespace)
		err := errors.Join(s.cluster.Client.List(ctx, &releases, in), s.cluster.Client.List(ctx, &pods, in), s.get(ctx, &policy))
		left := fmt.Sprintf("%d releases, %d pods, %d domains", len(releases.Items), len(pods.Items), len(policy.Status.Domains))
		return len(releases.Items)+len(pods.Items)+len(policy.Status.Domains) == 0, left, err
	})
	if err != nil {
		return err
	}
	s.note("both previews were removed, with their pods and domains", true, "after "+since(closed))
	for _, sha := range s.hub.heads {
		if err := s.deployment(ctx, sha, "inactive"); err != nil {
			return err
		}
	}
	s.note("their deployments on GitHub are inactive", true, "")
	return s.run(ctx, "get", "ghr,imgp,msvc,vsvc,hnp", "-n", namespace)
}

// reported checks that GitHub received exactly the expected reports.
func (s *story) reported(reports []harness.Report) check {
	c := s.noneFailed(reports)
	if s.hub == nil {
		return c
	}
	deployments := map[string]int{}
	for _, d := range s.hub.repo.Deployments() {
		deployments[d.SHA+" "+d.Environment]++
	}
	twice := 0
	for _, n := range deployments {
		twice += n - 1
	}
	s.note("one deployment on GitHub for each commit", twice == 0 && len(deployments) > 0, fmt.Sprintf("%d for %d commits", twice+len(deployments), len(deployments)))
	comments := len(s.hub.repo.Comments(1))
	s.note("one comment on the pull request", comments == 1, fmt.Sprint(comments))
	failures := s.hub.server.Failures()
	s.note("GitHub received only requests that its REST reference describes", len(failures) == 0, strings.Join(failures, "; "))
	return c
}

// head returns the head commit of a pull request.
func (s *story) head(n int) string { return s.hub.repo.PullRequest(n).HeadSHA }

// why returns, as text, the reasons why candidates are rejected.
func why(candidates []v1alpha1.RefusedCandidate) string {
	var all []string
	for _, c := range candidates {
		all = append(all, fmt.Sprintf("%.7s: %s (%s)", c.Version, c.Reason, c.Verdict))
	}
	return strings.Join(all, "; ")
}

func short(sha string) string { return sha[:7] }

// build pushes the image of the head commit of pull request 1.
func (s *story) build(ctx context.Context) error {
	s.hub.heads = append(s.hub.heads, s.head(1))
	return s.image(ctx, 1)
}

func (s *story) image(ctx context.Context, n int) error {
	sha := s.head(n)
	return s.push(ctx, fmt.Sprintf("pr-%d-%s", n, sha), map[string]string{"VERSION": short(sha)})
}

// get reads the sample's object of the same kind as o.
func (s *story) get(ctx context.Context, o client.Object) error {
	return s.cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, o)
}

// lastStatus returns the last status that GitHub received for a commit.
func (s *story) lastStatus(sha string) githubtest.DeploymentStatus {
	for _, d := range s.hub.repo.Deployments() {
		if d.SHA == sha && len(d.Statuses) > 0 {
			return d.Statuses[len(d.Statuses)-1]
		}
	}
	return githubtest.DeploymentStatus{}
}

// deployment waits until a commit's deployment has the given state on GitHub.
func (s *story) deployment(ctx context.Context, sha, state string) error {
	return harness.WaitFor(ctx, fmt.Sprintf("GitHub to receive state %[2]s for %.7[1]s", sha, state), func(context.Context) (bool, string, error) {
		last := s.lastStatus(sha).State
		return last == state, fmt.Sprintf("%q", last), nil
	})
}

// pause waits for a period during which something should not happen.
func (s *story) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
