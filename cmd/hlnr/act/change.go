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

// change is a change to the specification of a Microservice, with the flags that are common to all commands that
// make such changes.
type change struct {
	dryRun     bool
	printPatch bool
	force      bool
	output     *cli.Output
	// lenient reports whether a dry run succeeds without a forecast if the user is not allowed to read all of the objects that the planner needs.
	lenient bool
}

func (c *change) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&c.dryRun, "dry-run", false, "show what would happen, without changing anything")
	flags.BoolVar(&c.printPatch, "print-patch", false, "print the change as a patch for Git, without changing anything")
	flags.BoolVar(&c.force, "force", false, "change the field even if it is managed by a GitOps tool, which may revert the change")
	c.output = cli.AddOutput(cmd, formats...)
}

// edit describes a change to a field.
type edit struct {
	// field is the path of the field in the specification.
	field []string
	// apply makes the change. by is the name of the user who makes it. It is empty for a field that a GitOps tool owns, and in a
	// patch for Git, because the history in Git shows the author.
	apply func(spec *v1alpha1.MicroserviceSpec, by string)
	// done is the result to report.
	done Done
	// awaits is the version or the release that is active after the change. moves reports whether the active release changes.
	awaits string
	moves  bool
	// starts reports whether a freeze delays the change. A freeze does not delay a change that keeps the active release, or a pin that
	// returns the group to a retained release.
	starts bool
}

// gitOwned is the error for a field that a GitOps tool set.
type gitOwned struct {
	gitOwner
	path, object string
}

// Error returns a message with the field and the tool.
func (e *gitOwned) Error() string {
	return fmt.Sprintf("%s of %s is set by %s (field manager %s), which would revert a change in the cluster", e.path, e.object, e.Tool, e.Manager)
}

// run makes the change, simulates it, or prints it as a patch for Git.
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
	if c.dryRun && owner.Owns && !c.force {
		return cli.No(fmt.Errorf("%w: commit the patch that --print-patch prints instead, or use --force", e.ownedBy(owner, ms)))
	}
	if owner.Tool != "" {
		fmt.Fprintf(s.ErrOut, "hlnr: note: %s (field manager %s) applies this object; commit the change to Git too: --print-patch prints it as a patch\n", owner.Tool, owner.Manager)
	}
	return nil
}

// after returns a copy of the object with the change, made by the given user.
func (e edit) after(ms *v1alpha1.Microservice, by string) *v1alpha1.Microservice {
	after := ms.DeepCopy()
	e.apply(&after.Spec, by)
	return after
}

// ownedBy returns the error for a change to a field that a GitOps tool owns.
func (e edit) ownedBy(owner gitOwner, ms *v1alpha1.Microservice) *gitOwned {
	return &gitOwned{owner, "spec." + strings.Join(e.field, "."), ms.Namespace + "/" + ms.Name}
}

// do makes the change or simulates it. Without --force, it returns a [gitOwned] error for a field that a GitOps tool owns. A dry run does not
// return this error, so that its effects can be shown.
func (c *change) do(ctx context.Context, s *scope, ms *v1alpha1.Microservice, e edit) (*Done, gitOwner, error) {
	done := e.done
	done.Object, done.Namespace, done.Microservice = "microservice.hlnr.io/"+ms.Name, s.namespace, ms.Name
	done.DryRun = c.dryRun
	owner := ownerOf(ms.ManagedFields, e.field...)
	if owner.Owns && !c.force && !c.dryRun {
		return nil, owner, e.ownedBy(owner, ms)
	}
	by, err := s.me(ctx)
	if err != nil {
		return nil, owner, err
	}
	done.By = by
	if owner.Owns {
		by = "" // The GitOps tool would overwrite the field, but would not remove an author that is not in Git.
	}
	if e.starts {
		done.Frozen = s.frozenBy(ctx, ms)
	}
	options := []client.PatchOption{client.FieldOwner(cli.FieldManager)}
	if c.dryRun {
		options = append(options, client.DryRunAll)
	}
	// The write precedes the forecast, so that a user without permissions gets the error from the write, and not the one from the forecast.
	if err := s.write(ctx, ms, func(spec *v1alpha1.MicroserviceSpec) { e.apply(spec, by) }, options...); err != nil || !c.dryRun {
		return &done, owner, err
	}
	facts, err := forecast.Read(ctx, s.client, e.after(ms, by), s.Now())
	if err == nil {
		done.Effects = facts.Play(s.Now()).Lines()
	} else if done.Unplayed, err = unplayed(ctx, s, fmt.Errorf("simulate the change: %w", err), c.lenient); err != nil {
		return nil, owner, err
	}
	return &done, owner, nil
}

// unplayed returns the reason why the effects of a dry run are not known, if the command is lenient and the error means that
// a permission is missing. Otherwise, it returns the error.
func unplayed(ctx context.Context, s *scope, err error, lenient bool) (string, error) {
	if err == nil || !lenient || !apierrors.IsForbidden(err) {
		return "", err
	}
	return s.Explain(ctx, err).Error(), nil
}

// maxWrites is the maximum number of attempts to write a change while other clients write the same object.
const maxWrites = 10

// write applies the change to the object as it was read. The manager often writes the status of the object, so write tries again after a
// conflict. If the specification has changed, write returns the conflict error.
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
	return fmt.Errorf("Microservice %s/%s changes too often: run the command again", ms.Namespace, ms.Name)
}

// withoutAuthors returns a copy of the object without the authors of pins, because the history in Git shows them.
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

// patchForGit prints the change as a merge patch with the name of the object, in the form that kustomize accepts.
func (c *change) patchForGit(s *scope, before, after *v1alpha1.Microservice) error {
	before, after = withoutAuthors(before), withoutAuthors(after)
	raw, err := client.MergeFrom(before).Data(after)
	if err != nil {
		return fmt.Errorf("create the patch: %w", err)
	}
	patch := map[string]any{}
	if err := json.Unmarshal(raw, &patch); err != nil {
		return fmt.Errorf("create the patch: %w", err)
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
