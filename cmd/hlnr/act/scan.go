package act

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// scan is one run of the scan command.
type scan struct {
	timeout time.Duration
	output  *cli.Output
}

func newScanCommand(f *cli.Factory) *cobra.Command {
	o := &scan{}
	cmd := &cobra.Command{
		Use:     "scan MICROSERVICE | ImagePolicy/NAME | GitHubRepository/NAME",
		Short:   "Scan the registry or GitHub for new versions now",
		GroupID: cli.GroupAct,
		Long: `scan sets the hlnr.io/requestedAt annotation on the ImagePolicy of a Microservice, or on the object
that you name, and waits until the manager has scanned the registry or GitHub.

Exit codes: 0: the scan succeeded; 3: the scan failed, or spec.suspend is true; 4: the timeout expired.`,
		Example: `  hlnr scan shop
  hlnr scan githubrepository/shop`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeMicroservice(f),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), f, args[0]) },
	}
	cmd.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "how long to wait for the scan; 0 means no wait")
	o.output = cli.AddOutput(cmd, formats...)
	return cmd
}

// source returns the object to scan.
func (o *scan) source(ctx context.Context, s *scope, arg string) (client.Object, error) {
	kind, name, typed := strings.Cut(arg, "/")
	switch word := strings.ToLower(kind); {
	case typed && (word == "imgp" || strings.HasPrefix(word, "imagepolic")):
		return o.get(ctx, s, &v1alpha1.ImagePolicy{}, "ImagePolicy", name, &v1alpha1.ImagePolicyList{})
	case typed && (word == "ghrepo" || word == "ghr" || strings.HasPrefix(word, "githubrepositor")):
		return o.get(ctx, s, &v1alpha1.GitHubRepository{}, "GitHubRepository", name, &v1alpha1.GitHubRepositoryList{})
	}
	ms, err := s.microservice(ctx, arg)
	if err != nil {
		return nil, err
	}
	return o.get(ctx, s, &v1alpha1.ImagePolicy{}, "ImagePolicy", ms.Spec.ImagePolicyRef.Name, &v1alpha1.ImagePolicyList{})
}

func (o *scan) get(ctx context.Context, s *scope, obj client.Object, kind, name string, list client.ObjectList) (client.Object, error) {
	err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, obj)
	if !isMissing(err, name) {
		return obj, err
	}
	names, err := s.names(ctx, list)
	if err != nil {
		return nil, err
	}
	return nil, cli.Unknown(kind+" in namespace "+s.namespace, name, names)
}

func (o *scan) run(ctx context.Context, f *cli.Factory, arg string) error {
	s, err := newScope(f)
	if err != nil {
		return err
	}
	obj, err := o.source(ctx, s, arg)
	if err != nil {
		return err
	}
	kind, err := scannable(obj)
	if err != nil {
		return err
	}
	request := s.Now().UTC().Format(time.RFC3339Nano)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{v1alpha1.AnnotationRequestedAt: request}}})
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	write, cancel := whole(ctx)
	defer cancel()
	if err := s.client.Patch(write, obj, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(cli.FieldManager)); err != nil {
		return err
	}
	done := &Done{Action: "Scan", Object: kind + ".hlnr.io/" + obj.GetName(), Namespace: s.namespace, text: obj.GetName() + ": a scan has been requested"}
	if o.timeout <= 0 {
		return done.print(s.Out, o.output)
	}
	for end := s.Now().Add(o.timeout); s.Now().Before(end); {
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		if handled, text := scanned(obj, request); handled {
			done.text, done.Outcome = obj.GetName()+": "+text, text
			if err := done.print(s.Out, o.output); err != nil || failureOf(obj) == "" {
				return err
			}
			return cli.No(nil)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.Clock.After(pollInterval):
		}
	}
	if err := done.print(s.Out, o.output); err != nil {
		return err
	}
	return cli.TimedOut(fmt.Errorf("the manager did not scan within %s; %q checks whether the manager is running and watches the namespace", o.timeout, s.Command(s.namespace, "doctor")))
}

// scannable returns the name of the resource of an object, such as imagepolicy, or an error if spec.suspend of the object is set.
func scannable(obj client.Object) (string, error) {
	kind, resource, suspended := "ImagePolicy", "imagepolicy", false
	switch o := obj.(type) {
	case *v1alpha1.ImagePolicy:
		suspended = o.Spec.Suspend
	case *v1alpha1.GitHubRepository:
		kind, resource, suspended = "GitHubRepository", "githubrepository", o.Spec.Suspend
	}
	if suspended {
		return "", cli.No(fmt.Errorf("%s %s is suspended: remove spec.suspend first", kind, obj.GetName()))
	}
	return resource, nil
}

// reasonNoVersions is the condition reason for an ImagePolicy that offers no version after a successful scan.
const reasonNoVersions = "NoVersions"

// failureOf returns the reason why the latest scan of an object failed, or an empty string if the scan succeeded.
func failureOf(obj client.Object) string {
	var conditions []metav1.Condition
	switch o := obj.(type) {
	case *v1alpha1.ImagePolicy:
		conditions = o.Status.Conditions
	case *v1alpha1.GitHubRepository:
		conditions = o.Status.Conditions
	}
	for _, kind := range []string{v1alpha1.ConditionSourceReachable, v1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(conditions, kind); c != nil && c.Status == metav1.ConditionFalse && c.Reason != reasonNoVersions {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return ""
}

// scanned reports whether a request was handled, and describes the result.
func scanned(obj client.Object, request string) (bool, string) {
	// If another request replaced this one, the scan for that request also handles this one.
	last := obj.GetAnnotations()[v1alpha1.AnnotationRequestedAt]
	handled := func(by string) bool { return by == request || by != "" && by == last }
	switch o := obj.(type) {
	case *v1alpha1.ImagePolicy:
		if !handled(o.Status.LastHandledRequest) {
			return false, ""
		}
		switch why := failureOf(o); {
		case why != "":
			return true, "the scan failed: " + why
		case o.Status.Latest == "":
			return true, "scanned; no version is offered"
		}
		return true, fmt.Sprintf("scanned; offered versions: %s, latest %s", o.Status.Offered, o.Status.Latest)
	case *v1alpha1.GitHubRepository:
		if why := failureOf(o); why != "" {
			return handled(o.Status.LastHandledRequest), "the poll failed: " + why
		}
		return handled(o.Status.LastHandledRequest), "polled"
	}
	return false, ""
}
