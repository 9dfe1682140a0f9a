package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// Request is an action that does not come from a command line.
type Request struct {
	// Verb is the name of the command: continue, adopt, deprecate, retry, pin, unpin, rollback, pause or resume.
	Verb string
	// Namespace and Microservice are the namespace and the name of the Microservice.
	Namespace, Microservice string
	// Target is a version or the name of a release. If it is empty, the target is the only release for which the action is possible or, for a
	// rollback, the previous release.
	Target string
	// Group is the name of the group for pin, unpin and rollback. If it is empty, the only group for which the action is possible is used.
	Group string
	// Until is the end of a pin, in the format of --until. It is empty for a pin without an end.
	Until string
	// Reason is the reason for the action, which other users can read.
	Reason string
	// ID is the ID of a decision. A release handles each ID only once. If it is empty, a new ID is used.
	ID string
	// DryRun simulates the action without writing anything. A change to a field that a GitOps tool owns is still rejected.
	DryRun bool
}

// decides maps verbs to the actions of decisions.
var decides = map[string]v1alpha1.DecisionAction{
	"continue": v1alpha1.DecisionContinue, "adopt": v1alpha1.DecisionAdopt, "deprecate": v1alpha1.DecisionDeprecate, "retry": v1alpha1.DecisionRetry,
}

// earlierTimeout is how long Do waits for the manager to handle an earlier decision about the same release.
const earlierTimeout = 5 * time.Second

// Do executes the action with a client, in the same way as the command for the verb, and returns the result. It does
// not wait for the manager to handle the action.
func (r Request) Do(ctx context.Context, f *cli.Factory, c client.WithWatch) (*Done, error) {
	s := &scope{f, c, r.Namespace}
	if action, is := decides[r.Verb]; is {
		d := &decision{action: action, reason: r.Reason, id: r.ID, dryRun: r.DryRun, lenient: true, timeout: earlierTimeout}
		args := []string{r.Microservice}
		if r.Target != "" {
			args = append(args, r.Target)
		}
		done, _, err := d.do(ctx, s, args)
		return done, err
	}
	ms, err := s.microservice(ctx, r.Microservice)
	if err != nil {
		return nil, err
	}
	e, err := r.edit(ctx, s, ms)
	if err != nil {
		return nil, err
	}
	done, owner, err := (&change{dryRun: r.DryRun, lenient: true}).do(ctx, s, ms, e)
	if err == nil && owner.Owns {
		err = e.ownedBy(owner, ms)
	}
	return done, err
}

// edit returns the change to the specification of a Microservice.
func (r Request) edit(ctx context.Context, s *scope, ms *v1alpha1.Microservice) (edit, error) {
	o := &pinOptions{group: r.Group, until: r.Until, reason: r.Reason}
	switch r.Verb {
	case "pause", "resume":
		return pauseOf(ms, r.Verb == "pause")
	case "unpin":
		return o.unpinned(ctx, s, ms)
	case "rollback":
		to := r.Target
		if to == "" {
			var err error
			if to, err = o.before(ctx, s, ms); err != nil {
				return edit{}, err
			}
		}
		return o.pinned(ctx, s, ms, to)
	case "pin":
		if r.Target == "" {
			return edit{}, cli.Usage(fmt.Errorf("choose the version to pin %s to", ms.Name))
		}
		return o.pinned(ctx, s, ms, r.Target)
	}
	return edit{}, cli.Usage(fmt.Errorf("there is no action %q", r.Verb))
}

// FreezeRequest is a freeze or a thaw that does not come from a command line. Its fields correspond to the flags of
// the commands.
type FreezeRequest struct {
	// Thaw selects the thaw command instead of the freeze command.
	Thaw bool
	// Namespace is the namespace to freeze or to thaw. If it is empty, the request applies to the
	// cluster.
	Namespace string
	// Name is the name of the Freeze or ClusterFreeze. If it is empty, the default of the command is used.
	Name string
	// A freeze requires Reason, and either Until or Indefinite.
	Until, Reason string
	Indefinite    bool
	// Selector selects Microservices, and Namespaces selects namespaces for a freeze of the cluster. Empty selectors select all objects.
	Selector, Namespaces string
	// UID and Generation identify the only freeze that a thaw may delete, as returned by [Done.Deletes]. If UID is empty, a thaw
	// does not check them.
	UID        string
	Generation int64
	// DryRun simulates the action without writing anything.
	DryRun bool
}

// Do executes the request as hlnr freeze and thaw do.
func (r FreezeRequest) Do(ctx context.Context, f *cli.Factory, c client.WithWatch) (*Done, error) {
	o := &freezeOptions{
		name: r.Name, until: r.Until, reason: r.Reason, selector: r.Selector, namespaces: r.Namespaces, indefinite: r.Indefinite,
		all: r.Namespace == "", dryRun: r.DryRun, uid: r.UID, generation: r.Generation,
	}
	if !o.all && o.namespaces != "" {
		return nil, cli.Usage(fmt.Errorf("a namespace selector can be used only with a freeze of the cluster"))
	}
	s := &scope{f, c, r.Namespace}
	if r.Thaw {
		return o.thaw(ctx, s)
	}
	o.name = cmp.Or(o.name, defaultFreeze)
	return o.freeze(ctx, s)
}

// Text returns the result of an action in one line.
func (d *Done) Text() string { return d.text }

// Deletes returns the UID and the generation of the freeze that a thaw deletes. They are empty for other actions.
func (d *Done) Deletes() (uid string, generation int64) { return d.uid, d.generation }

// IsGitOwned reports whether an action was rejected because a GitOps tool set the field that the action changes, and would revert the change.
func IsGitOwned(err error) bool {
	var owned *gitOwned
	return errors.As(err, &owned)
}
