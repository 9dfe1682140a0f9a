package github

import (
	"context"

	"github.com/google/go-github/v57/github"

	"github.com/heighliner/heighliner/internal/outbound"
)

// CommitState is the state of a commit status, as GitHub spells it.
type CommitState string

// The states of a commit status.
const (
	CommitPending CommitState = "pending"
	CommitSuccess CommitState = "success"
	CommitFailure CommitState = "failure"
	CommitError   CommitState = "error"
)

// CommitStatus is a status of a commit, which pull requests with this head commit show.
type CommitStatus struct {
	// SHA is the full commit.
	SHA   string
	State CommitState
	// Context distinguishes the statuses of a commit: GitHub shows the last one of each context.
	Context string
	// Description, truncated to 140 bytes.
	Description string
	// TargetURL is the address of details; "" for none.
	TargetURL string
}

// IsCommit reports whether a text is a full SHA.
func IsCommit(sha string) bool { return shaPattern.MatchString(sha) }

// SetCommitStatus adds a status to a commit. It replaces the last one of the same context, so that
// it can be repeated; GitHub accepts 1000 for a commit and context. Every error is an *Error;
// Invalid also means that the repository has no such commit.
func (c *Client) SetCommitStatus(ctx context.Context, repo Repo, s CommitStatus) error {
	what := c.call("set commit status of", repo, "@"+s.SHA, "statuses=write")
	if err := repo.check(); err != nil {
		return err
	}
	if !IsCommit(s.SHA) || s.Context == "" {
		return &Error{Kind: BadConfig, Op: what.op, Object: repo.String(), detail: "it has no full SHA or no context", remedy: "set both"}
	}
	request := &github.RepoStatus{
		State: github.String(string(s.State)), Context: &s.Context,
		Description: github.String(outbound.Printable([]byte(s.Description), maxDescription)),
	}
	if s.TargetURL != "" {
		request.TargetURL = &s.TargetURL
	}
	_, _, err := c.api.Repositories.CreateStatus(forWriting(ctx), repo.Owner, repo.Name, s.SHA, request)
	if err != nil {
		return classify(what, err)
	}
	return nil
}
