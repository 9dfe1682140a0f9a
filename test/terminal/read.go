package terminal

import (
	"fmt"
	"slices"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view"
)

// readAll runs all read-only commands while a canary is waiting for approval at 10%, next to an active
// release.
func (s *Stage) readAll(active, canary string) {
	s.Helper()
	s.status()
	s.tree()
	s.whyHost(active, canary)
	s.whyVersions(active, canary)
	s.history(active, canary)
	s.want(cli.ExitYes, []string{"no previews"}, "previews")
	if p := read[view.Previews](s, "previews"); p.Kind != view.KindPreviews || len(p.Services) > 0 {
		s.Errorf("previews: %+v", p)
	}
	s.events()
	s.logs(canary)
}

// status compares the lines of services and groups.
func (s *Stage) status() {
	s.Helper()
	faults := func(text string, b view.Board) []string {
		if len(b.Services) != 1 {
			return []string{fmt.Sprintf("%d services", len(b.Services))}
		}
		found := s.ofService(b.Services[0])
		for i, g := range b.Services[0].Groups {
			share := ""
			if g.CanaryWeight != nil {
				share = fmt.Sprintf("%d%%", *g.CanaryWeight)
			}
			// A sentence that is longer than a terminal's width is not truncated, because the output is not a terminal.
			line := strings.Join([]string{g.Name, g.Active, g.Canary, share}, " ")
			if i == 0 {
				line = s.Name + " " + line
			}
			found = append(found, contains(text, line, g.State.Sentence)...)
			if g.State.Class == view.Waiting || g.State.Class == view.Failed {
				for _, a := range g.State.Next {
					found = append(found, contains(text, a.Command)...)
				}
			}
		}
		return found
	}
	compare(s, faults, "status")
	compare(s, faults, "status", s.Name)
	s.want(cli.ExitYes, []string{"microservice.hlnr.io/" + s.Name}, "status", "-o", "name")
	s.want(cli.ExitYes, []string{"NAMESPACE", s.Namespace}, "status", "-A")
}

// tree compares releases, shares, checks, and pods.
func (s *Stage) tree() {
	s.Helper()
	compare(s, func(text string, v view.Service) []string {
		found := s.ofService(v)
		for _, g := range v.Groups {
			for _, h := range g.Hosts {
				found = append(found, contains(text, h.URL)...)
			}
			for _, r := range g.Releases {
				found = append(found, contains(text, r.Version+" "+r.Status)...)
				found = append(found, s.ofPods(r)...)
				if r.Share.Asked != nil {
					found = append(found, contains(text, fmt.Sprintf("%d%%", *r.Share.Asked))...)
				}
				if r.Pods != nil {
					for _, p := range r.Pods.Pods {
						found = append(found, contains(text, p.Name)...)
					}
				}
				if r.Rollout != nil {
					for _, c := range r.Rollout.Checks {
						found = append(found, contains(text, c.Message)...)
					}
				}
				for _, a := range r.State.Next {
					found = append(found, contains(text, a.Command)...)
				}
			}
		}
		return found
	}, "tree", s.Name, "--pods", "--all")
}

// why compares the text and the JSON of hlnr why, and checks the exit code.
func (s *Stage) why(code cli.Code, parts []string, args ...string) {
	s.Helper()
	args = append([]string{"why"}, args...)
	compare(s, func(text string, a view.Answer) []string {
		found := contains(text, append([]string{a.Summary, a.Do}, parts...)...)
		for _, l := range a.Lines {
			found = append(found, contains(text, l.Name+" "+l.Text+" "+l.Object)...)
		}
		if want := map[view.Result]cli.Code{view.Serving: cli.ExitYes, view.NotServing: cli.ExitNo, view.ForPerson: cli.ExitWaits}[a.Result]; want != code {
			found = append(found, fmt.Sprintf("the result is %s, want exit code %d", a.Result, code))
		}
		return found
	}, args...)
	s.eventually(code, nil, args...)
}

// whyHost runs hlnr why for the host of a group with two releases. The host is given as a URL and as
// a host name.
func (s *Stage) whyHost(active, canary string) {
	s.Helper()
	g, _ := row(s.microservice(), active)
	host := s.Host(g.Slug)
	for _, q := range []string{"http://" + host + "/some/page?a=b", host} {
		s.why(cli.ExitYes, []string{" is served by ", active + " (90%)", canary + " (10%)", "group " + g.Name, "NetworkPolicy " + s.Namespace + "/" + s.Name, "accepted by " + s.Gateway, "Gateway " + s.Gateway}, q)
	}
	s.want(cli.ExitUsage, []string{"there is no host"}, "why", "nothing.example.com")
}

// whyVersions runs hlnr why for versions and for a pod.
func (s *Stage) whyVersions(active, canary string) {
	s.Helper()
	s.why(cli.ExitYes, []string{canary + " is live with a share of 10%", "waits for approval", "hlnr continue"}, s.Name, canary)
	s.why(cli.ExitYes, []string{active + " is live"}, active)
	s.why(cli.ExitNo, []string{"8.8.8 is not live: the ImagePolicy does not offer it"}, s.Name, "8.8.8")
	v := read[view.Service](s, "tree", s.Name)
	for _, g := range v.Groups {
		for _, r := range g.Releases {
			if r.Version == canary && r.Pods != nil && len(r.Pods.Pods) > 0 {
				s.why(cli.ExitYes, []string{"Pod " + s.Namespace + "/" + r.Pods.Pods[0].Name}, "pod/"+r.Pods.Pods[0].Name)
				return
			}
		}
	}
	s.Errorf("%s has no pods: %+v", canary, v)
}

// history compares versions and results with the status.
func (s *Stage) history(versions ...string) {
	s.Helper()
	compare(s, func(text string, h view.History) []string {
		var found []string
		ms := s.microservice()
		for _, p := range h.Rollouts {
			if _, r := row(ms, p.Version); r == nil || r.VersionedMicroservice != p.Release || string(r.Status) != p.Status {
				found = append(found, fmt.Sprintf("%s %s %s, the object has %+v", p.Version, p.Release, p.Status, r))
			}
			found = append(found, contains(text, p.Result.Sentence)...)
		}
		for _, v := range versions {
			if !slices.ContainsFunc(h.Rollouts, func(p view.Past) bool { return p.Version == v }) {
				found = append(found, "no "+v)
			}
			found = append(found, contains(text, v)...)
		}
		return found
	}, "history", s.Name)
}

// events compares the events with the API server's events.
func (s *Stage) events() {
	s.Helper()
	compare(s, func(text string, v view.Events) []string {
		var list eventsv1.EventList
		if err := s.Client.List(s.Context(), &list, client.InNamespace(s.Namespace)); err != nil {
			s.Fatal(err)
		}
		var found []string
		if len(v.Events) == 0 {
			found = append(found, "no event")
		}
		for _, e := range v.Events {
			if !slices.ContainsFunc(list.Items, func(o eventsv1.Event) bool {
				return o.Regarding.APIVersion == v1alpha1.GroupVersion.String() && o.Reason == e.Reason && o.Regarding.Kind+"/"+o.Regarding.Name == e.Object
			}) {
				found = append(found, fmt.Sprintf("the API server has no event %s of %s", e.Reason, e.Object))
			}
			found = append(found, contains(text, e.Reason+" "+e.Object+" "+e.Note)...)
		}
		return found
	}, "events", s.Name)
}

// logs reads a release's logs, or expects an error if there is no kubelet.
func (s *Stage) logs(version string) {
	s.Helper()
	if s.Log == "" {
		s.want(cli.ExitFailed, nil, "logs", s.Name, version)
		return
	}
	s.eventually(cli.ExitYes, []string{s.Log}, "logs", s.Name, version, "--tail", "20")
	s.want(cli.ExitUsage, []string{"there is no release of " + s.Name}, "logs", s.Name, "8.8.8")
}
