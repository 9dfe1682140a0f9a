package notify

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
)

// defaultContext is the default prefix of commit status contexts.
const defaultContext = "heighliner"

// commitStates maps events to states. GitHub shows the pending state until another state is set, so each event
// that ends a rollout maps to a state other than pending.
var commitStates = map[v1alpha1.NotificationEvent]github.CommitState{
	v1alpha1.NotifyStarted: github.CommitPending, v1alpha1.NotifyStep: github.CommitPending, v1alpha1.NotifyWaiting: github.CommitPending,
	v1alpha1.NotifyPromoted: github.CommitSuccess, v1alpha1.NotifyRestored: github.CommitSuccess, v1alpha1.NotifyDeprecated: github.CommitSuccess,
	v1alpha1.NotifyRolledBack: github.CommitFailure, v1alpha1.NotifyFailed: github.CommitFailure, v1alpha1.NotifyAborted: github.CommitFailure,
	v1alpha1.NotifySuperseded: github.CommitError, v1alpha1.NotifyRemoved: github.CommitError,
}

// commitStatusOf returns a message in GitHub's format. sha is the commit from an earlier message about the release,
// or empty if there is none.
func commitStatusOf(r *v1alpha1.NotificationReceiver, m Message, sha string) github.CommitStatus {
	return github.CommitStatus{
		SHA: cmp.Or(m.Commit, sha), State: commitStates[m.Event], Context: cmp.Or(r.Context, defaultContext) + "/" + m.Namespace + "/" + m.Microservice,
		Description: m.Brief, TargetURL: m.URL,
	}
}

// commitStatus sets the status of a release's commit, and returns the commit. The caller records the commit,
// because the commit is not recorded elsewhere after the release is deleted.
func (s *Sender) commitStatus(ctx context.Context, r *v1alpha1.NotificationReceiver, c Credentials, m Message, edit string) (string, *Error) {
	status := commitStatusOf(r, m, edit)
	switch {
	case status.SHA == "":
		return "", finalf("the commit of the release is not known: an ImagePolicy reads the commits of pull requests and tags from GitHub, and the commits of releases only if feedback.deployments.releases or a label with {{.SHA}} requires them")
	case !github.IsCommit(status.SHA):
		return "", finalf("the revision %q of the release is not a full commit SHA", status.SHA)
	}
	client, err := s.github.Client(github.Config{BaseURL: c.URL, Credential: c.GitHub})
	if err != nil {
		return "", errorOfGitHub(err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := client.SetCommitStatus(ctx, c.Repository, status); err != nil {
		return "", errorOfGitHub(err)
	}
	return status.SHA, nil
}

// errorOfGitHub converts a GitHub error. The text of such an error contains no secrets.
func errorOfGitHub(err error) *Error {
	failure := errorf("%s", err)
	var of *github.Error
	if !errors.As(err, &of) {
		return failure
	}
	failure.Rejected = of.Kind == github.Invalid
	if wait := time.Until(of.RetryAt); wait > 0 && !of.RetryAt.IsZero() {
		failure.After = min(wait, maxRetryAfter)
	}
	return failure
}
