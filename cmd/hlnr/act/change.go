package act

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/cmd/hlnr/forecast"
)

// change is one change of the specification of a Microservice, with the flags that all such commands
// have.
type change struct {
	dryRun     bool
	printPatch bool
	force      bool
	output     *cli.Output
}

func (c *change) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&c.dryRun, "dry-run", false, "show what would happen, and change nothing")
	flags.BoolVar(&c.printPatch, "print-patch", false, "print the change as a patch for Git, and change nothing")
	flags.BoolVar(&c.force, "force", false, "write although a GitOps tool set the field, which may undo it")
	c.output = cli.AddOutput(cmd, formats...)
}

// edit is what changes.
type edit struct {
	// field of the specification that changes, as a path.
	field []string
	// apply makes the change.
	apply func(*v1alpha1.MicroserviceSpec)
	// done is what is reported.
	done Done
}

// run makes the change, or shows it, or leaves it to Git.
func (c *change) run(ctx context.Context, s *scope, ms *v1alpha1.Microservice, e edit) error {
	after := ms.DeepCopy()
	e.apply(&after.Spec)
	e.done.Object, e.done.Namespace, e.done.Microservice = "microservice.hlnr.io/"+ms.Name, s.namespace, ms.Name
	e.done.DryRun = c.dryRun
	if c.printPatch {
		return c.patchForGit(s, ms, after)
	}
	owner := ownerOf(ms.ManagedFields, e.field...)
	if owner.Owns && !c.force && !c.dryRun {
		path := "spec." + strings.Join(e.field, ".")
		if err := c.patchForGit(s, ms, after); err != nil {
			return err
		}
		return cli.No(fmt.Errorf("%s of %s/%s is set by %s (field manager %s), which would undo a change here: commit the patch above instead, or use --force",
			path, ms.Namespace, ms.Name, owner.Tool, owner.Manager))
	}
	by, err := s.me(ctx)
	if err != nil {
		return err
	}
	e.done.By = by
	options := []client.PatchOption{client.FieldOwner(cli.FieldManager)}
	if c.dryRun {
		facts, err := forecast.Read(ctx, s.client, after, s.Now())
		if err != nil {
			return fmt.Errorf("play the change: %w", err)
		}
		e.done.Effects = facts.Play(s.Now()).Lines()
		options = append(options, client.DryRunAll)
	}
	if err := s.write(ctx, ms, e.apply, options...); err != nil {
		return err
	}
	if err := e.done.print(s.Out, c.output); err != nil {
		return err
	}
	if owner.Tool != "" {
		fmt.Fprintf(s.ErrOut, "hlnr: note: %s (field manager %s) applies this object; keep the change in Git too: --print-patch prints it\n", owner.Tool, owner.Manager)
	}
	return nil
}

// maxWrites is how often a change is written that meets newer objects.
const maxWrites = 10

// write makes the change on the object as it was read. The manager writes the status all the time; only
// where the specification was changed in the meantime is that an error.
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

// patchForGit prints the change as a merge patch with the object's name, as kustomize takes it.
func (c *change) patchForGit(s *scope, before, after *v1alpha1.Microservice) error {
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
	var text []byte
	if c.output.Format == cli.FormatJSON {
		text, err = json.MarshalIndent(patch, "", "  ")
		text = append(text, '\n')
	} else {
		text, err = yaml.Marshal(patch)
	}
	if err != nil {
		return fmt.Errorf("write the patch: %w", err)
	}
	if _, err := s.Out.Write(text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
