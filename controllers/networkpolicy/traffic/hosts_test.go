package traffic

import (
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestSplitOfEachHost checks the URL and SPLIT columns: the split of each host, even while some
// hosts are moving from one group to the next.
func TestSplitOfEachHost(t *testing.T) {
	one := "1-x a 1.0.0 active 100"
	for name, tc := range map[string]struct {
		domains []string
		groups  []string
		url     string
		split   string
	}{
		"one host":                                        {[]string{newestHost}, []string{one}, newestHost, "1.0.0=100"},
		"a canary":                                        {[]string{newestHost}, []string{"1-x b 1.1.0 canary 10,a 1.0.0 active 90"}, newestHost, "1.0.0=90 1.1.0=10"},
		"two hosts with the same split":                   {[]string{newestHost, "{{.ReleaseGroupName}}.e.com"}, []string{one}, newestHost, "1.0.0=100"},
		"two groups":                                      {[]string{"{{.ReleaseGroupName}}.e.com"}, []string{"2-x b 2.0.0 active 100", one}, "2-x.e.com", "2-x.e.com: 2.0.0=100; 1-x.e.com: 1.0.0=100"},
		"two groups and the newest domain":                {[]string{newestHost, "{{.ReleaseGroupName}}.e.com"}, []string{"2-x b 2.0.0 active 100", one}, newestHost, newestHost + " +1: 2.0.0=100; 1-x.e.com: 1.0.0=100"},
		"during a move":                                   {[]string{newestHost}, []string{"2-x b 2.0.0 canary 10", one}, newestHost, "1.0.0=90 2.0.0=10"},
		"during a move, several domains":                  {[]string{newestHost, "{{.ReleaseGroupName}}.e.com"}, []string{"2-x b 2.0.0 canary 10", one}, newestHost, newestHost + ": 1.0.0=90 2.0.0=10; 2-x.e.com: 2.0.0=100; 1-x.e.com: 1.0.0=100"},
		"during a move, other domains first":              {[]string{"{{.ReleaseGroupName}}.e.com", newestHost}, []string{"2-x b 2.0.0 canary 10", one}, "1-x.e.com", "1-x.e.com: 1.0.0=100; 2-x.e.com: 2.0.0=100; " + newestHost + ": 1.0.0=90 2.0.0=10"},
		"during a move, with a canary of the older group": {[]string{newestHost, "{{.ReleaseGroupName}}.e.com"}, []string{"2-x b 2.0.0 canary 50", "1-x c 1.1.0 canary 10,a 1.0.0 active 90"}, newestHost, newestHost + ": 1.0.0=45 1.1.0=5 2.0.0=50; 2-x.e.com: 2.0.0=100; 1-x.e.com: 1.0.0=90 1.1.0=10"},
		"only some domains move":                          {[]string{newestHost, "old.e.com/legacy=1-x"}, []string{"2-x b 2.0.0 canary 10", one}, newestHost, newestHost + ": 1.0.0=90 2.0.0=10; old.e.com/legacy: 1.0.0=100"},
		"more groups than fit":                            {[]string{"{{.ReleaseGroupName}}.e.com"}, []string{"4-x d 4.0.0 active 100", "3-x c 3.0.0 active 100", "2-x b 2.0.0 active 100", one}, "4-x.e.com", "4-x.e.com: 4.0.0=100; 3-x.e.com: 3.0.0=100; 2-x.e.com: 2.0.0=100; +1"},
		"one group has no endpoints":                      {[]string{newestHost, "{{.ReleaseGroupName}}.e.com"}, []string{"2-x dead 2.0.0 active 100", one}, newestHost, "1.0.0=100"},
		"Services only":                                   {nil, []string{"2-x b 2.0.0 active 100", one}, "", "shop-2-x: 2.0.0=100; shop-1-x: 1.0.0=100"},
		"one Service":                                     {nil, []string{one}, "", "1.0.0=100"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			w.ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}}}
			w.policy.Spec.Domains = nil
			if tc.domains == nil {
				w.policy.Spec.Provider = nil
			}
			for _, text := range tc.domains {
				host, group, _ := strings.Cut(text, "=")
				host, path, below := strings.Cut(host, "/")
				d := v1alpha1.Domain{Domain: host}
				if below {
					d.Path = "/" + path
				}
				if group != "" {
					d.Groups = &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: []string{group}}
				}
				w.policy.Spec.Domains = append(w.policy.Spec.Domains, d)
			}
			w.ready = map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}
			w.settle()
			var groups []v1alpha1.ReleaseGroup
			for _, text := range tc.groups {
				slug, rows, _ := strings.Cut(text, " ")
				groups = append(groups, group(slug, 2, strings.Split(rows, ",")...))
			}
			w.rollout(groups...)
			w.settle()
			url := ""
			if tc.url != "" {
				url = "http://" + tc.url
			}
			want(t, "URL", w.policy.Status.URL, url)
			want(t, "SPLIT", w.policy.Status.Summary.Split, tc.split)
		})
	}
}
