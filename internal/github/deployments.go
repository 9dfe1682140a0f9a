package github

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/go-github/v57/github"

	"github.com/heighliner/heighliner/internal/outbound"
)

// MadeDeployment is an existing deployment.
type MadeDeployment struct {
	ID               int64
	SHA, Environment string
	// Marker is the marker with which the deployment was created.
	Marker string
}

// Deployments lists the deployments whose marker begins with prefix, newest first. It also finds deployments that the caller has not recorded. An
// empty sha selects the deployments of all commits, and an empty environment selects the deployments to all environments. Every error is an *Error.
func (c *Client) Deployments(ctx context.Context, repo Repo, prefix, sha, environment string) (List[MadeDeployment], error) {
	what := c.call("list deployments of", repo, "", "deployments=read")
	if err := repo.check(); err != nil {
		return List[MadeDeployment]{}, err
	}
	ctx = ForWriting(ctx)
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

// StartDeployment calls EnsureDeployment and then SetDeploymentStatus. If it creates the deployment, it sets the first status without reading the
// existing statuses, because the deployment may not be visible in GitHub's replicas for a few seconds. If setting the status fails, it returns both
// the ID and the error. For any other error, the ID is 0. Every error is an *Error.
func (c *Client) StartDeployment(ctx context.Context, repo Repo, d Deployment, s DeploymentStatus) (int64, error) {
	id, made, err := c.ensureDeployment(ctx, repo, d)
	switch {
	case err != nil:
		return 0, err
	case made:
		return id, c.addStatus(ctx, repo, id, s)
	}
	_, err = c.SetDeploymentStatus(ctx, repo, id, s)
	return id, err
}

// setStatus describes the call that sets the status of a deployment.
func (c *Client) setStatus(repo Repo, deployment int64) call {
	return c.call("set status of deployment", repo, fmt.Sprintf(" deployment %d", deployment), "deployments=write")
}

// addStatus adds a status to a deployment. Every error is an *Error.
func (c *Client) addStatus(ctx context.Context, repo Repo, deployment int64, s DeploymentStatus) error {
	description := outbound.Printable([]byte(s.Description), maxDescription)
	request := &github.DeploymentStatusRequest{
		State: github.String(string(s.State)), Description: &description, AutoInactive: github.Bool(false),
	}
	if s.EnvironmentURL != "" {
		request.EnvironmentURL = &s.EnvironmentURL
	}
	if s.LogURL != "" {
		request.LogURL = &s.LogURL
	}
	_, _, err := c.api.Repositories.CreateDeploymentStatus(ForWriting(ctx), repo.Owner, repo.Name, deployment, request)
	if err != nil {
		return classify(c.setStatus(repo, deployment), err)
	}
	return nil
}
