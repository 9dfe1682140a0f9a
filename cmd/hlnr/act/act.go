// Package act contains the hlnr commands that change something. They make decisions about releases, set and remove pins, pauses and freezes, end
// groups, and request scans. Each command checks whether the action makes sense, writes once, with hlnr as the field manager, and reports the
// result.
//
//	act.go        the list of commands, their results, and access to the cluster
//	decide.go     continue, adopt, deprecate, retry and promote
//	target.go     finds the release of a decision
//	pin.go        pin and unpin
//	rollback.go   rollback, and which release it returns to
//	pin_edits.go  changes to the pins of a Microservice, without access to the cluster
//	switches.go   pause, resume and end-group
//	change.go     writes a change to the specification of a Microservice, shows it, or prints it for Git
//	git.go        finds the fields that a GitOps tool owns
//	freeze.go     freeze and thaw
//	until.go      parses times in the future
//	reason.go     the flag --reason
//	scan.go       scan
//	request.go    the same actions for other callers, such as the board
package act

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view/text"
)

// Commands are all commands in this package.
var Commands = []cli.NewCommand{
	newContinueCommand, newAdoptCommand, newDeprecateCommand, newRetryCommand, newPromoteCommand,
	newRollbackCommand, newPinCommand, newUnpinCommand,
	newPauseCommand, newResumeCommand, newEndGroupCommand,
	newFreezeCommand, newThawCommand,
	newScanCommand,
}

// Done is the result of an action. Its JSON fields are an interface for scripts.
type Done struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Action is the name of the action. For decisions, it is the name in the API: Continue, Adopt, Deprecate or Retry.
	// The other actions are Pin, Unpin, Pause, Resume, EndGroup, Freeze, Thaw and Scan.
	Action string `json:"action"`
	// Object is the object that was written, in the form resource/name.
	Object       string `json:"object"`
	Namespace    string `json:"namespace"`
	Microservice string `json:"microservice,omitempty"`
	Group        string `json:"group,omitempty"`
	Version      string `json:"version,omitempty"`
	Step         string `json:"step,omitempty"`
	// By is the user name that the API server reports.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Until is the end of a pin or a freeze, in RFC 3339 format.
	Until string `json:"until,omitempty"`
	// DryRun is true if nothing was written.
	DryRun bool `json:"dryRun,omitempty"`
	// Next is the command that waits until a change to a pin has taken effect. It is empty for all other actions, in a dry run, with --wait,
	// and if the active release does not change or the next version is not known.
	Next string `json:"next,omitempty"`
	// Frozen describes the freeze that prevents the start of the selected release, with its end and reason. It is empty if there is no
	// such freeze.
	Frozen string `json:"frozen,omitempty"`
	// Outcome is the outcome of a decision or a scan. It is empty until the manager has recorded an outcome. In a dry run, it is
	// the predicted outcome of a decision.
	Outcome string `json:"outcome,omitempty"`
	// Effects are the effects that a dry run predicts, in chronological order or, for a freeze, sorted by the name of the Microservice.
	Effects []string `json:"effects,omitempty"`
	// Unplayed is the reason why Effects are not known: the user is allowed to perform the action, but not to read all of the objects
	// that the planner needs.
	Unplayed string `json:"unplayed,omitempty"`

	// text describes the result in one line.
	text string
	// uid and generation are the UID and the generation of the freeze that a thaw deletes.
	uid        string
	generation int64
}

// The API version and the kind of Done.
const (
	apiVersion = "view.hlnr.io/v1"
	kindDone   = "Act"
)

// print prints the result of an action.
func (d *Done) print(out io.Writer, o *cli.Output) error {
	d.APIVersion, d.Kind = apiVersion, kindDone
	return o.Print(out, d, func(w io.Writer) error {
		var b strings.Builder
		b.WriteString(text.Clean(d.text) + "\n")
		for _, e := range d.Effects {
			b.WriteString("  " + text.Clean(e) + "\n")
		}
		if d.Frozen != "" {
			b.WriteString("nothing new starts until the freeze ends: " + text.Clean(d.Frozen) + "\n")
		}
		if d.Next != "" {
			b.WriteString("to wait until this takes effect: " + text.Clean(d.Next) + "\n")
		}
		if d.DryRun {
			b.WriteString("Nothing was written: dry run.\n")
		}
		if _, err := io.WriteString(w, b.String()); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		return nil
	}, func() []string { return []string{d.Object} })
}

// formats are the values of --output for the commands of this package.
var formats = []string{cli.FormatJSON, cli.FormatYAML, cli.FormatName}

// writeTimeout limits the duration of a write. A signal does not interrupt a write.
const writeTimeout = 30 * time.Second

// whole returns a context for a write. A signal does not cancel this context, so a write is either completed or not
// started.
func whole(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
}

// scope is the cluster and the namespace of a command.
type scope struct {
	*cli.Factory
	client    client.WithWatch
	namespace string
}

func newScope(f *cli.Factory) (*scope, error) {
	c, err := f.Client()
	if err != nil {
		return nil, err
	}
	namespace, err := f.Namespace()
	if err != nil {
		return nil, err
	}
	return &scope{f, c, namespace}, nil
}

// microservice reads a Microservice by its name, with or without a resource prefix ("msvc/shop"). If the Microservice does
// not exist, the error suggests the most similar names.
func (s *scope) microservice(ctx context.Context, name string) (*v1alpha1.Microservice, error) {
	name = bare(name)
	ms := &v1alpha1.Microservice{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, ms)
	if !isMissing(err, name) {
		ms.Status.Convert()
		return ms, err
	}
	names, err := s.names(ctx, &v1alpha1.MicroserviceList{})
	if err != nil {
		return nil, err
	}
	return nil, cli.UnknownMicroservice(ctx, s.client, "Microservice", s.namespace, name, names)
}

// names returns the names of the objects in the namespace. The type of the list determines their kind.
func (s *scope) names(ctx context.Context, list client.ObjectList) ([]string, error) {
	if err := s.client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return nil, err
	}
	var names []string
	objects, err := meta.ExtractList(list)
	for _, o := range objects {
		if m, ok := o.(client.Object); ok {
			names = append(names, m.GetName())
		}
	}
	return names, err
}

// isMissing reports whether an error means that an object with the given name does not exist, although its kind exists.
func isMissing(err error, name string) bool {
	var s apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &s) {
		return false
	}
	d := s.Status().Details
	return d != nil && d.Name == name
}

// bare removes the resource prefix from a name such as "msvc/shop".
func bare(name string) string {
	if _, after, found := strings.Cut(name, "/"); found {
		return after
	}
	return name
}

// me returns the name of the user according to the API server. With impersonation, this is the impersonated user.
func (s *scope) me(ctx context.Context) (string, error) {
	user, err := s.user(ctx)
	return user.Username, err
}

// user returns the name and the groups of the user according to the API server.
func (s *scope) user(ctx context.Context) (authenticationv1.UserInfo, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := s.client.Create(ctx, review); err != nil {
		return authenticationv1.UserInfo{}, fmt.Errorf("read your user name from the API server: %w", err)
	}
	return review.Status.UserInfo, nil
}
