package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// ReleaseDetail is one release, with its differences from the previous release.
type ReleaseDetail struct {
	metav1.TypeMeta `json:",inline"`
	Time            metav1.Time `json:"time"`
	Namespace       string      `json:"namespace"`
	Service         string      `json:"service"`
	Group           string      `json:"group"`
	Release         Release     `json:"release"`
	// Before is the version, and BeforeRelease is the name, of the previous release of the group. They are empty if there is none, or
	// if the object of one of the two releases is not known.
	Before        string `json:"before,omitempty"`
	BeforeRelease string `json:"beforeRelease,omitempty"`
	// Changes are the fields of the pod template that differ, at most [MaxChanges]. More is the number of additional
	// fields that differ.
	Changes []FieldChange `json:"changes,omitempty"`
	More    int           `json:"more,omitempty"`
	// URL is the address of the GitHub release, tag or pull request from which the release comes.
	URL string `json:"url,omitempty"`
	// Hooks are the hooks that were called or ran as Jobs for the release, sorted by the last change of their phase or message, the oldest first.
	Hooks []HookRun `json:"hooks,omitempty"`
}

// HookRun is the latest call of a hook, or its latest Job.
type HookRun struct {
	Name string `json:"name"`
	// Type is the point at which the hook is called, such as ConfirmRollout.
	Type string `json:"type"`
	// Phase is Waiting, Open, Delivered or Failed.
	Phase    string       `json:"phase"`
	Attempts int32        `json:"attempts,omitempty"`
	Time     *metav1.Time `json:"time,omitempty"`
	// Message is the first line of the answer, or the result of the Job.
	Message string `json:"message,omitempty"`
	// Job is the name of the Job. Log is the termination message of the Job's container, or the last lines of its log if the
	// Job failed.
	Job string `json:"job,omitempty"`
	Log string `json:"log,omitempty"`
}

// hooksOf returns the hooks of a release.
func hooksOf(o *v1alpha1.VersionedMicroservice) (out []HookRun) {
	for _, h := range o.Status.Hooks {
		out = append(out, HookRun{
			Name: h.Name, Type: string(h.Type), Phase: string(h.Phase), Attempts: h.Attempts, Time: micros(h.Time), Message: h.Message, Job: h.Job, Log: h.Log,
		})
	}
	slices.SortStableFunc(out, func(a, b HookRun) int {
		if a.Time == nil || b.Time == nil {
			return 0
		}
		return a.Time.Compare(b.Time.Time)
	})
	return out
}

// MaxChanges is the maximum number of changes in a [ReleaseDetail].
const MaxChanges = 100

// FieldChange is a field that differs. Its value is omitted, because the value may be secret.
type FieldChange struct {
	// Path is the path of the field, such as spec.containers[shop].resources.limits.memory.
	Path string `json:"path"`
	// Change is added, removed or changed.
	Change string `json:"change"`
}

// NewRelease returns a release from the view of a service. It returns false if the service does not contain the release.
func NewRelease(in Input, s Service, name string, now time.Time) (ReleaseDetail, bool) {
	for _, g := range slices.Concat(s.Groups, s.Previews) {
		for _, r := range g.Releases {
			if r.Name != name {
				continue
			}
			out := ReleaseDetail{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: KindRelease}, Time: metav1.Time{Time: now.UTC()}, Namespace: s.Namespace, Service: s.Name, Group: g.Name, Release: r}
			out.compare(in, g)
			for i := range in.Releases {
				if o := &in.Releases[i]; o.Namespace == s.Namespace && o.Name == name {
					out.Hooks = hooksOf(o)
				}
			}
			if p := g.PullRequest; p != nil {
				out.URL = p.URL
			}
			for i := range in.ImagePolicies {
				p := &in.ImagePolicies[i]
				if d := s.Discovery; d == nil || p.Namespace != s.Namespace || p.Name != d.Policy {
					continue
				}
				for _, o := range p.Status.Releases {
					if o.SemVer.Version == r.Version && o.URL != "" {
						out.URL = o.URL
					}
				}
			}
			return out, true
		}
	}
	return ReleaseDetail{}, false
}

// compare adds the differences from the previous release of the group.
func (d *ReleaseDetail) compare(in Input, g Group) {
	var before *Release
	for i := range g.Releases {
		r := &g.Releases[i]
		if r.Created == nil || d.Release.Created == nil || r.Name == d.Release.Name || !r.Created.Before(d.Release.Created) {
			continue
		}
		if before == nil || before.Created.Before(r.Created) {
			before = r
		}
	}
	if before == nil {
		return
	}
	var templates [2]any
	for i := range in.Releases {
		o := &in.Releases[i]
		for k, name := range []string{before.Name, d.Release.Name} {
			if o.Namespace == d.Namespace && o.Name == name {
				templates[k] = templateOf(o)
			}
		}
	}
	if templates[0] == nil || templates[1] == nil {
		return
	}
	d.Before, d.BeforeRelease = before.Version, before.Name
	d.Changes = differences("", templates[0], templates[1])
	if n := len(d.Changes); n > MaxChanges {
		d.Changes, d.More = d.Changes[:MaxChanges], n-MaxChanges
	}
}

// templateOf returns the pod template of a release as a map of fields. It omits the metadata, because each release has
// different labels.
func templateOf(o *v1alpha1.VersionedMicroservice) any {
	raw, err := json.Marshal(o.Spec.Template)
	if err != nil {
		return nil
	}
	var out map[string]any
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	delete(out, "metadata")
	return out
}

// differences returns the paths of the fields that differ. Items of lists are identified by their name if they
// have one.
func differences(path string, before, after any) []FieldChange {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	x, y := members(before), members(after)
	if x == nil || y == nil {
		change := "changed"
		switch {
		case before == nil:
			change = "added"
		case after == nil:
			change = "removed"
		}
		return []FieldChange{{Path: strings.TrimPrefix(path, "."), Change: change}}
	}
	all := maps.Clone(x)
	maps.Copy(all, y)
	var out []FieldChange
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, differences(path+k, x[k], y[k])...)
	}
	return out
}

// members returns the members of an object or a list. The key of each member is the part that it adds to the path. For
// other values, members returns nil.
func members(v any) map[string]any {
	out := map[string]any{}
	switch v := v.(type) {
	case map[string]any:
		for k, item := range v {
			out["."+k] = item
		}
	case []any:
		for i, item := range v {
			key := fmt.Sprintf("[%d]", i)
			if m, ok := item.(map[string]any); ok {
				if name, ok := m["name"].(string); ok {
					key = "[" + name + "]"
				}
			}
			if _, twice := out[key]; twice {
				key = fmt.Sprintf("[%d]", i)
			}
			out[key] = item
		}
	default:
		return nil
	}
	return out
}
