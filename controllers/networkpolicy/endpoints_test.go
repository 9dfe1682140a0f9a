package networkpolicy

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// An endpoint on its way out still answers what it has, and is no reason for weight: a
// release of which nothing else is left counts as one without endpoints.
func TestServing(t *testing.T) {
	yes, no := new(true), new(false)
	for name, tc := range map[string]struct {
		ready, serving, terminating *bool
		want                        bool
	}{
		"ready":                                 {yes, yes, no, true},
		"nothing is said":                       {nil, nil, nil, true},
		"not ready":                             {no, no, no, false},
		"terminating, and still answering":      {no, yes, yes, false},
		"terminating":                           {no, no, yes, false},
		"published although it is not ready":    {yes, no, no, false},
		"published although it is terminating":  {yes, yes, yes, false},
		"of a server that knows no terminating": {yes, nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: tc.ready, Serving: tc.serving, Terminating: tc.terminating}}
			want(t, "serving", serving(e), tc.want)
		})
	}
}
