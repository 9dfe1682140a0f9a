package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/cmd/hlnr/forecast"
)

// change is one change of the specification of a Microservice, with the flags that such commands share.
type change struct {
	dryRun     bool
	printPatch bool
	force      bool
	output     *cli.Output
	// lenient: a dry run still tries the write if the user may not read what the planner needs.
	lenient bool
}

func (c *change) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&c.dryRun, "dry-run", false, "show what would happen, without changing anything")
	flags.BoolVar(&c.printPatch, "print-patch", false, "print the change as a patch for Git, without changing anything")
	flags.BoolVar(&c.force, "force", false, "change the field even if a GitOps tool manages it, which may revert the change")
	c.output = cli.AddOutput(cmd, formats...)
}

// edit describes a change.
type edit struct {
	// field of the specification to change, as a path.
	field []string
	// apply makes the change for a user; "" in a patch for Git, whose history shows the author.
	apply func(spec *v1alpha1.MicroserviceSpec, by string)
	// done is what is reported.
	done Done
	// awaits is the version or the release that is active after the change, and moves whether it is another one than before.
	awaits string
	moves  bool
	// starts: what the change brings waits for the end of a freeze: a release that starts or goes through its steps, and without a pin
	// also one that is retained. A pin to a retained release returns it during a freeze.
	starts bool
}

// gitOwned is the error for a change of a field that a GitOps tool set.
type gitOwned struct {
	gitOwner
	path, object string
}

// Error names the field and the tool.
func (e *gitOwned) Error() string {
	return fmt.Sprintf("%s of %s is set by %s (field manager %s), which would revert a change here", e.path, e.object, e.Tool, e.Manager)
}

// run makes the change, shows it, or prints a patch for Git.
func (c *change) run(ctx context.Context, s *scope, ms *v1alpha1.Microservice, e edit) error {
	if c.printPatch {
		return c.patchForGit(s, ms, e.after(ms, ""))
	}
	done, owner, err := c.do(ctx, s, ms, e)
	var owned *gitOwned
	if errors.As(err, &owned) {
		if err := c.patchForGit(s, ms, e.after(ms, "")); err != nil {
			return err
		}
		return cli.No(fmt.Errorf("%w: commit the patch above instead, or use --force", owned))
	}
	if err != nil {
		return err
	}
	if err := done.print(s.Out, c.output); err != nil {
		return err
	}
	if owner.Tool != "" {
		fmt.Fprintf(s.ErrOut, "hlnr: note: %s (field manager %s) applies this object; keep the change in Git too: --print-patch prints it\n", owner.Tool, owner.Manager)
	}
	return nil
}

// after returns the object with the change by a user.
func (e edit) after(ms *v1alpha1.Microservice, by string) *v1alpha1.Microservice {
	after := ms.DeepCopy()
	e.apply(&after.Spec, by)
	return after
}

// do makes the change or simulates it. For a field that a GitOps tool owns it returns a [gitOwned].
func (c *change) do(ctx context.Context, s *scope, ms *v1alpha1.Microservice, e edit) (*Done, gitOwner, error) {
	done := e.done
	done.Object, done.Namespace, done.Microservice = "microservice.hlnr.io/"+ms.Name, s.namespace, ms.Name
	done.DryRun = c.dryRun
	owner := ownerOf(ms.ManagedFields, e.field...)
	if owner.Owns && !c.force && !c.dryRun {
		return nil, owner, &gitOwned{owner, "spec." + strings.Join(e.field, "."), ms.Namespace + "/" + ms.Name}
	}
	by, err := s.me(ctx)
	if err != nil {
		return nil, owner, err
	}
	done.By = by
	if owner.Owns {
		by = "" // Git, which will write the field again, cannot remove an author that it does not know.
	}
	if e.starts {
		done.Frozen = s.frozenBy(ctx, ms)
	}
	options := []client.PatchOption{client.FieldOwner(cli.FieldManager)}
	if c.dryRun {
		options = append(options, client.DryRunAll)
	}
	// Before the effects: a user who may neither act nor read all that the planner needs learns first that they may not act.
	if err := s.write(ctx, ms, func(spec *v1alpha1.MicroserviceSpec) { e.apply(spec, by) }, options...); err != nil || !c.dryRun {
		return &done, owner, err
	}
	facts, err := forecast.Read(ctx, s.client, e.after(ms, by), s.Now())
	if err == nil {
		done.Effects = facts.Play(s.Now()).Lines()
	} else if done.Unplayed, err = unplayed(ctx, s, fmt.Errorf("play the change: %w", err), c.lenient); err != nil {
		return nil, owner, err
	}
	return &done, owner, nil
}

// unplayed returns why the effects of a dry run are not known, if that is not an error.
func unplayed(ctx context.Context, s *scope, err error, lenient bool) (string, error) {
	if err == nil || !lenient || !apierrors.IsForbidden(err) {
		return "", err
	}
	return s.Explain(ctx, err).Error(), nil
}

// maxWrites is the maximum number of attempts to write a change if the object changes in between.
const maxWrites = 10

// write applies the change to the object as it was read. The manager writes the status all the time;
// only a change of the specification in the meantime is an error.
func (s *scope) write(ctx context.Context, ms *v1alpha1.Microservice, apply func(*v1alpha1.MicroserviceSpec), options ...client.PatchOption) error {
	ctx, cancel := whole(ctx)
	defer cancel()
	before := ms
	for range maxWrites {
		after := before.DeepCopy()
		apply(&after.Spec)
		err := s.client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), options...)
		if !apierrors.IsConflict(err) {
			return err
		}
		newer := &v1alpha1.Microservice{}
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(ms), newer); err != nil {
			return err
		}
		if newer.Generation != ms.Generation || newer.UID != ms.UID {
			return err
		}
		before = newer
	}
	return fmt.Errorf("Microservice %s/%s is written too often: run the command again", ms.Namespace, ms.Name)
}

// withoutAuthors returns an object whose pins name no author, because the history in Git shows them.
func withoutAuthors(ms *v1alpha1.Microservice) *v1alpha1.Microservice {
	out := ms.DeepCopy()
	if m := out.Spec.UpdateStrategy.Manual; m != nil {
		m.Author = nil
		for i := range m.Groups {
			m.Groups[i].Author = nil
		}
	}
	return out
}

// patchForGit prints the change as a merge patch with the object's name, in the form that kustomize
// accepts.
func (c *change) patchForGit(s *scope, before, after *v1alpha1.Microservice) error {
	before, after = withoutAuthors(before), withoutAuthors(after)
	raw, err := client.MergeFrom(before).Data(after)
	if err != nil {
		return fmt.Errorf("make the patch: %w", err)
	}
	patch := map[string]any{}
	if err := json.Unmarshal(raw, &patch); err != nil {
		return fmt.Errorf("make the patch: %w", err)
	}
	patch["apiVersion"], patch["kind"] = v1alpha1.GroupVersion.String(), "Microservice"
	patch["metadata"] = map[string]any{"name": before.Name, "namespace": before.Namespace}
	form := cli.YAML
	if c.output.Format == cli.FormatJSON {
		form = cli.JSON
	}
	text, err := form(patch)
	if err != nil {
		return err
	}
	if _, err := s.Out.Write(text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
