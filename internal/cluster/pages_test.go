package cluster

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// paged is an API server with a number of Microservices. It drops a revision after some pages.
type paged struct {
	client.Reader
	services, calls, forgets int
}

func (p *paged) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	p.calls++
	var o client.ListOptions
	o.ApplyOptions(options)
	from := 0
	if o.Continue != "" {
		from, _ = strconv.Atoi(o.Continue)
		if p.calls == p.forgets {
			return apierrors.NewResourceExpired("the continue token is too old")
		}
	}
	to := p.services
	if o.Limit > 0 {
		to = min(to, from+int(o.Limit))
	}
	out := list.(*v1alpha1.MicroserviceList)
	out.Items = out.Items[:0] // A decoder also writes into the existing array.
	for i := from; i < to; i++ {
		ms := v1alpha1.Microservice{}
		ms.Name, ms.Annotations = fmt.Sprintf("s%d", i), map[string]string{"a": "b"}
		out.Items = append(out.Items, ms)
	}
	out.Continue = ""
	if to < p.services {
		out.Continue = strconv.Itoa(to)
	}
	return nil
}

// TestPages checks that a list is complete even if its revision is dropped while the list is being
// read.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ services, forgets, calls int }{{0, 0, 1}, {page, 0, 1}, {2*page + 50, 0, 3}, {3 * page, 3, 4}} {
		server := &paged{services: tc.services, forgets: tc.forgets}
		var list v1alpha1.MicroserviceList
		if err := pages(t.Context(), server, &list, "s7", nil); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != tc.services || server.calls != tc.calls {
			t.Errorf("%+v: %d services in %d calls", tc, len(list.Items), server.calls)
		}
		for i, ms := range list.Items {
			if ms.Name != fmt.Sprintf("s%d", i) || (ms.Annotations != nil) != (i == 7) {
				t.Fatalf("%+v: service %d is %s with %v", tc, i, ms.Name, ms.Annotations)
			}
		}
	}
}
