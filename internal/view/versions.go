package view

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// Versions are the versions that the ImagePolicy of a service offers and rejects.
type Versions struct {
	metav1.TypeMeta `json:",inline"`
	Time            metav1.Time `json:"time"`
	Namespace       string      `json:"namespace"`
	Name            string      `json:"name"`
	// Discovery; nil if the ImagePolicy is not known.
	Discovery *Discovery `json:"discovery,omitempty"`
	// Offered versions, newest group and version first.
	Offered []Offered `json:"offered"`
	// Rejected counts the rejected tags by verdict; Discovery has the newest of them.
	Rejected []VerdictCount `json:"rejected,omitempty"`
}

// Offered is a version that an ImagePolicy offers.
type Offered struct {
	Version string   `json:"version"`
	Group   string   `json:"group"`
	Level   string   `json:"level"`
	Images  []string `json:"images,omitempty"`
	// PullRequest of a preview.
	PullRequest int64        `json:"pullRequest,omitempty"`
	Released    *metav1.Time `json:"released,omitempty"`
	Commit      string       `json:"commit,omitempty"`
	URL         string       `json:"url,omitempty"`
	// Held: the version is beyond the limits of the policy, and offered only because it is
	// in use.
	Held bool `json:"held,omitempty"`
	// Status of the release with this version; "" if there is none.
	Status string `json:"status,omitempty"`
}

// VerdictCount counts rejected tags.
type VerdictCount struct {
	Verdict string `json:"verdict"`
	Count   int32  `json:"count"`
}

// NewVersions returns the versions of a view of a service.
func NewVersions(in Input, s Service, now time.Time) Versions {
	out := Versions{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: KindVersions}, Time: metav1.Time{Time: now.UTC()}, Namespace: s.Namespace, Name: s.Name, Discovery: s.Discovery, Offered: []Offered{}}
	if s.Discovery == nil {
		return out
	}
	statuses := map[string]string{}
	for _, list := range [][]Group{s.Groups, s.Previews} {
		for _, g := range list {
			for _, r := range g.Releases {
				if statuses[r.Version] == "" || r.Status == "active" {
					statuses[r.Version] = r.Status
				}
			}
		}
	}
	for i := range in.ImagePolicies {
		p := &in.ImagePolicies[i]
		if p.Namespace != s.Namespace || p.Name != s.Discovery.Policy {
			continue
		}
		for _, o := range p.Status.Releases {
			x := Offered{Version: o.SemVer.Version, Group: o.SemVer.Name, Level: string(o.Level), PullRequest: o.PullRequest, Released: metas(o.ReleaseTime), Commit: o.Revision, URL: o.URL, Held: o.Held, Status: statuses[o.SemVer.Version]}
			for _, image := range o.Images {
				x.Images = append(x.Images, image.Image)
			}
			out.Offered = append(out.Offered, x)
		}
		for _, c := range p.Status.Rejected {
			out.Rejected = append(out.Rejected, VerdictCount{Verdict: status.Line(c.Verdict), Count: c.Count})
		}
	}
	return out
}

// discovery returns the discovery of a service, or nil if its ImagePolicy is not known.
func (s *service) discovery() *Discovery {
	p := s.images[key(s.ms.Namespace, s.ms.Spec.ImagePolicyRef.Name)]
	if p == nil {
		return nil
	}
	out := &Discovery{Policy: p.Name, Image: p.Spec.Image, Latest: p.Status.Latest}
	if p.Status.Scan != nil {
		out.Tags, out.Changed = p.Status.Scan.Tags, timeOf(p.Status.Scan.ChangedTime.Time)
	}
	for _, kind := range []string{v1alpha1.ConditionSourceReachable, v1alpha1.ConditionReady} {
		for _, c := range p.Status.Conditions {
			if c.Type != kind {
				continue
			}
			out.Ready = c.Status == metav1.ConditionTrue
			if !out.Ready && out.Reason == "" {
				out.Reason, out.Message = c.Reason, status.Line(c.Message)
			}
		}
	}
	out.Ready = out.Ready && out.Reason == ""
	for _, c := range p.Status.Candidates {
		out.Rejected = append(out.Rejected, Verdict{Version: c.Version, Verdict: c.Verdict, Reason: status.Line(c.Reason)})
	}
	return out
}
