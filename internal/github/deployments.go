package github

import (
	"context"
	"strings"

	"github.com/google/go-github/v57/github"
)

// MadeDeployment is a deployment that was made before.
type MadeDeployment struct {
	ID               int64
	SHA, Environment string
	// Marker that it was made with.
	Marker string
}

// Deployments lists the deployments whose marker begins with prefix, of one commit
// and one environment or, with "", of all: to find again what no record tells of.
// The newest comes first. Every error is an *Error.
func (c *Client) Deployments(ctx context.Context, repo Repo, prefix, sha, environment string) (List[MadeDeployment], error) {
	what := c.call("list deployments of", repo, "", "deployments=read")
	if err := repo.check(); err != nil {
		return List[MadeDeployment]{}, err
	}
	ctx = forWriting(ctx)
	return pages(ctx, c, what, func(ctx context.Context, o github.ListOptions) ([]*github.Deployment, *github.Response, error) {
		return c.api.Repositories.ListDeployments(ctx, repo.Owner, repo.Name, &github.DeploymentsListOptions{SHA: sha, Environment: environment, ListOptions: o})
	}, func(g *github.Deployment) (MadeDeployment, bool, error) {
		if g.GetID() == 0 {
			return MadeDeployment{}, false, errUnusable
		}
		made := MadeDeployment{ID: g.GetID(), SHA: g.GetSHA(), Environment: g.GetEnvironment(), Marker: markerOf(g.Payload)}
		asked := (sha == "" || made.SHA == sha) && (environment == "" || made.Environment == environment)
		return made, asked && made.Marker != "" && strings.HasPrefix(made.Marker, prefix), nil
	})
}
