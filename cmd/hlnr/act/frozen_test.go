package act

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/test/await"
)

// preview returns the result of a dry run of an action on shop, as the board performs it.
func (p *person) preview(verb string) *Done {
	p.Helper()
	f := cli.New("hlnr", "test", genericiooptions.IOStreams{})
	done, err := Request{Verb: verb, Namespace: p.namespace, Microservice: "shop", DryRun: true}.Do(p.Context(), f, p.Client)
	if err != nil {
		p.Fatal(err)
	}
	return done
}

// upgraded returns a user with a service whose active release is 1.1.0, and whose retained release is 1.0.0.
func upgraded(t *testing.T) *person {
	t.Helper()
	p := shop(t)
	p.offer("1.1.0", "1.0.0")
	p.await("1.1.0", v1alpha1.ReleaseCanary)
	p.want(cli.ExitYes, "applied", "adopt", "shop")
	p.await("1.1.0", v1alpha1.ReleaseActive)
	return p
}

// TestUnpinToARetainedReleaseDuringAFreeze checks that a freeze prevents a group without a pin from returning to a retained release, and that
// unpin reports the freeze, as "hlnr wait" does. The preview on the board reports the freeze too.
func TestUnpinToARetainedReleaseDuringAFreeze(t *testing.T) {
	t.Parallel()
	p := upgraded(t)
	p.want(cli.ExitYes, "pinned to 1.0.0", "rollback", "shop")
	p.await("1.0.0", v1alpha1.ReleaseActive)
	p.want(cli.ExitYes, "frozen until ", "freeze", p.namespace, "--until", "4h", "--reason", "trade fair")
	p.Frozen(t, p.namespace, "freeze")
	if done := p.preview("unpin"); done.Frozen == "" {
		t.Errorf("the preview of unpin on the board does not report the freeze: %s", done.Text())
	}
	var done Done
	if out := p.want(cli.ExitYes, "", "unpin", "shop", "-o", "json"); json.Unmarshal([]byte(out), &done) != nil || done.Frozen == "" {
		t.Errorf("the retained release 1.1.0 does not return before the end of the freeze, but unpin does not report the freeze: %s", out)
	}
	await.Nil(t, func(context.Context) error { // The manager also reports the freeze.
		var ms v1alpha1.Microservice
		p.get("shop", &ms)
		c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionFrozen)
		if c == nil || c.Status != metav1.ConditionTrue || ms.Status.ObservedGeneration != ms.Generation {
			return fmt.Errorf("the condition Frozen is %+v", c)
		}
		if g := ms.Status.ReleaseGroups[0]; g.Active != "1.0.0" || !strings.Contains(c.Message, "1.1.0") {
			t.Errorf("%s is active; %s", g.Active, c.Message)
		}
		return nil
	})
}

// TestPinOfTheCurrentConfigurationDuringAFreeze checks that a group returns to a pinned retained release with the current configuration during a
// freeze, and that hlnr pin does not report a delay.
func TestPinOfTheCurrentConfigurationDuringAFreeze(t *testing.T) {
	t.Parallel()
	p := upgraded(t)
	p.want(cli.ExitYes, "frozen until ", "freeze", p.namespace, "--until", "4h", "--reason", "trade fair")
	var done Done
	out := p.want(cli.ExitYes, "", "pin", "shop", "1.0.0", "--current-configuration", "-o", "json")
	if err := json.Unmarshal([]byte(out), &done); err != nil {
		t.Fatal(err)
	}
	p.await("1.0.0", v1alpha1.ReleaseActive) // The freeze has not ended.
	if done.Frozen != "" {
		t.Errorf("pin reported that the freeze delays 1.0.0, but 1.0.0 is active during the freeze: %s", out)
	}
}
