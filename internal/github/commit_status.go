package github

import (
	"context"

	"github.com/google/go-github/v57/github"

	"github.com/heighliner/heighliner/internal/outbound"
)

// CommitState is the state of a commit status, in GitHub's spelling.
type CommitState string

// These are the states of a commit status.
const (
	CommitPending CommitState = "pending"
	CommitSuccess CommitState = "success"
	CommitFailure CommitState = "failure"
	CommitError   CommitState = "error"
)

// CommitStatus is a status of a commit. GitHub shows it in pull requests whose head is this commit.
type CommitStatus struct {
	// SHA is the full SHA of the commit.
	SHA   string
	State CommitState
	// Context distinguishes the statuses of a commit. GitHub shows only the latest status for each
	// context.
	Context string
	// Description is truncated to 140 bytes.
	Description string
	// TargetURL is the URL of a page with details; empty if there is none.
	TargetURL string
}

// IsCommit reports whether a string is the full SHA of a commit.
func IsCommit(sha string) bool { return shaPattern.MatchString(sha) }

// SetCommitStatus adds a status to a commit. The new status replaces the previous status with the same context, so the call can be repeated. GitHub
// accepts up to 1000 statuses for each commit and context. Every error is an *Error. The Invalid kind may also mean that the repository has no such
// commit.
func (c *Client) SetCommitStatus(ctx context.Context, repo Repo, s CommitStatus) error {
	what := c.call("set commit status of", repo, "@"+s.SHA, "statuses=write")
	if err := repo.check(); err != nil {
		return err
	}
	if !IsCommit(s.SHA) || s.Context == "" {
		return &Error{Kind: BadConfig, Op: what.op, Object: repo.String(), detail: "the full SHA or the context is missing", remedy: "set both"}
	}
	request := &github.RepoStatus{
		State: github.String(string(s.State)), Context: &s.Context,
		Description: github.String(outbound.Printable([]byte(s.Description), maxDescription)),
	}
	if s.TargetURL != "" {
		request.TargetURL = &s.TargetURL
	}
	_, _, err := c.api.Repositories.CreateStatus(ForWriting(ctx), repo.Owner, repo.Name, s.SHA, request)
	if err != nil {
		return classify(what, err)
	}
	return nil
}
