package feedback

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/status"
)

// access contains the client and the name of a repository to write to.
type access struct {
	client *github.Client
	repo   github.Repo
}

// result is the result of one write.
type result struct {
	write
	// id is the ID of the Deployment; 0 if there is none.
	id int64
	// kept is the comment state to record.
	kept github.CommentState
	// err is the error that the write returned, or nil.
	err error
}

// applied is the result of a task.
type applied struct {
	access *access
	// found contains the new records of Deployments that had no record. It is set only if searched is true.
	found    []v1alpha1.FeedbackRecord
	searched bool
	results  []result
	// err is the error that ended the task early, or nil.
	err error
}

// access returns the access to a repository. If the GitHubRepository is being deleted and its Secret no longer
// exists, the method reuses the client of the previous access (last). If there is no previous access, or
// the GitHubRepository is not being deleted, a missing Secret is an error.
func (r *Reconciler) access(ctx context.Context, ghr *v1alpha1.GitHubRepository, repo github.Repo, last *access) (*access, error) {
	switch {
	case ghr.DeletionTimestamp.IsZero():
		last = nil
	case last != nil:
		last = &access{client: last.client, repo: repo}
	}
	ref := ghr.Spec.CredentialsSecretRef
	if ref == nil {
		return last, missingSecret(last, "spec.credentialsSecretRef: required to write to GitHub: set it to the name of a Secret")
	}
	var secret corev1.Secret
	err := r.Get(ctx, client.ObjectKey{Namespace: ghr.Namespace, Name: ref.Name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return last, missingSecret(last, fmt.Sprintf("spec.credentialsSecretRef: Secret %q not found in this namespace: create it, or correct the name", ref.Name))
	case apierrors.IsForbidden(err):
		return nil, status.Classify(fmt.Errorf("spec.credentialsSecretRef: %w", status.SecretForbidden(ghr.Namespace, ref.Name, err)))
	case err != nil:
		return nil, fmt.Errorf("get Secret %q: %w", ref.Name, err)
	}
	credential, err := github.ReadCredential(secret.Data, repo.Owner)
	if err != nil {
		return nil, status.NewTerminal("InvalidSecret", fmt.Errorf("spec.credentialsSecretRef: %w", err))
	}
	c, err := r.pool.Client(github.Config{BaseURL: ghr.Spec.BaseURL, Credential: credential})
	if err != nil {
		return nil, err
	}
	return &access{client: c, repo: repo}, nil
}

func missingSecret(last *access, text string) error {
	if last != nil {
		return nil
	}
	return status.NewTerminal("SecretNotFound", errors.New(text))
}

// apply writes a batch or, if search is set, searches for existing Deployments. It does
// not change ghr.
func (r *Reconciler) apply(ctx context.Context, ghr *v1alpha1.GitHubRepository, last *access, search bool, writes []write) applied {
	ctx = github.ForWriting(ctx)
	a, err := r.locate(ctx, ghr, repositoryOf(ghr), last)
	if err != nil {
		return applied{err: err}
	}
	out := applied{access: a}
	if search {
		found, err := a.findDeployments(ctx, prefixOf(ghr.UID), repositoryOf(ghr))
		return applied{access: a, found: found, searched: err == nil, err: err}
	}
	type kind struct {
		from    string // the result of githubRepository.otherThan
		comment bool
	}
	refused := map[kind]error{} // errors about missing permissions
	visited := map[string]*access{"": a}
	for _, w := range writes {
		k := kind{w.otherRepository, w.comment != nil}
		// The credentials might permit the search for an existing comment even if they do not permit writing comments.
		searches := w.searches() && visited[w.otherRepository] != nil
		if refused[k] != nil && !searches {
			out.results = append(out.results, w.failedWith(refused[k]))
			continue
		}
		if visited[w.otherRepository] == nil {
			there, err := r.locate(ctx, ghr, w.repository(), a)
			if err != nil {
				refused[kind{w.otherRepository, true}], refused[kind{w.otherRepository, false}] = err, err
				out.results = append(out.results, w.failedWith(err))
				continue
			}
			visited[w.otherRepository] = there
		}
		res := visited[w.otherRepository].write(ctx, ghr.UID, w)
		out.results = append(out.results, res)
		r.metrics.written(res)
		if affectsAllWrites(res.err) {
			if w.otherRepository == "" { // errors in other repositories do not affect the current repository
				out.err = res.err
			}
			break
		}
		if github.KindOf(res.err) == github.Forbidden && !w.searches() {
			refused[k] = res.err
		}
	}
	return out
}

// repository returns the repository that a write changes.
func (w *write) repository() githubRepository {
	if w.comment != nil {
		return repositoryOfComment(w.comment)
	}
	return repositoryOfRecord(w.deployment)
}

// failedWith returns the result of a write that had no effect.
func (w write) failedWith(err error) result {
	res := result{write: w, err: err}
	if w.deployment != nil {
		res.id = w.deployment.DeploymentID
	} else {
		res.kept = commentState(w.comment)
	}
	return res
}

// prefixOf returns the marker prefix that all of a repository's Deployments share. The prefix is public on
// GitHub. It must therefore not contain the UID, which is the secret key from which the comment markers are derived.
func prefixOf(uid types.UID) string {
	return fmt.Sprintf("feedback:%x:", sha256.Sum256([]byte("deployments of "+uid)))
}

// findDeployments returns records of existing Deployments, oldest first.
func (a *access) findDeployments(ctx context.Context, prefix string, here githubRepository) ([]v1alpha1.FeedbackRecord, error) {
	made, err := a.client.Deployments(ctx, a.repo, prefix, "", "")
	if err != nil {
		return nil, err
	}
	slices.SortFunc(made.Items, func(a, b github.MadeDeployment) int { return cmp.Compare(a.ID, b.ID) })
	var records []v1alpha1.FeedbackRecord
	seen := map[target]bool{}
	for _, m := range made.Items {
		var number int64
		t := target{environment: m.Environment, ref: m.SHA}
		if _, err := fmt.Sscanf(strings.TrimPrefix(m.Marker, prefix), "%d", &number); err != nil || seen[t] {
			continue
		}
		seen[t] = true
		records = append(records, v1alpha1.FeedbackRecord{Repository: here.name, RepositoryID: here.id, Environment: m.Environment, Ref: m.SHA, PullRequest: number, DeploymentID: m.ID})
	}
	if excess := len(records) - maxRecords; excess > 0 {
		records = records[excess:]
	}
	return records, nil
}

// write writes one Deployment or comment. uid is the UID of the GitHubRepository. A write that panics fails, and the results of the
// other writes are kept.
func (a *access) write(ctx context.Context, uid types.UID, w write) (res result) {
	if err := contain.Panics(func() error { res = a.writeOnce(ctx, uid, w); return nil }); err != nil {
		return w.failedWith(err)
	}
	return res
}

func (a *access) writeOnce(ctx context.Context, uid types.UID, w write) result {
	if w.comment != nil {
		kept, err := a.client.EnsureComment(ctx, a.repo, int(w.comment.PullRequest), commentState(w.comment),
			github.Comment{Key: string(uid), Body: w.text, EditOnly: w.editsOnly()})
		return result{write: w, kept: kept, err: err}
	}
	id, err := a.writeDeployment(ctx, prefixOf(uid), w)
	return result{write: w, id: id, err: err}
}

// writeDeployment writes a Deployment. It returns the Deployment's ID, or 0 if there is no Deployment, even
// if it also returns an error.
func (a *access) writeDeployment(ctx context.Context, prefix string, w write) (int64, error) {
	record := w.deployment
	if w.want.state == v1alpha1.DeploymentInactive {
		return a.deactivate(ctx, prefix, w)
	}
	wanted := github.Deployment{
		SHA: record.Ref, Environment: record.Environment, Marker: marker(prefix, record.PullRequest),
		Description: "Heighliner", Transient: record.PullRequest != 0, Production: record.PullRequest == 0,
	}
	status := github.DeploymentStatus{State: github.DeploymentState(w.want.state), Description: w.want.description}
	if isWebURL(w.want.url) { // GitHub rejects other URLs
		status.EnvironmentURL = w.want.url
	}
	id := record.DeploymentID
	if id != 0 {
		_, err := a.client.SetDeploymentStatus(ctx, a.repo, id, status)
		gone, err := a.isGone(ctx, w, id, err)
		if !gone {
			return id, err
		}
	}
	return a.client.StartDeployment(ctx, a.repo, wanted, status)
}

// isGone reports whether a Deployment was deleted. err is the error from a write to it. For a few
// seconds, GitHub's replicas may not know about new objects. A Deployment therefore counts as deleted
// only after it has been missing on GitHub for a while. Until then, isGone returns err.
func (a *access) isGone(ctx context.Context, w write, id int64, err error) (bool, error) {
	if github.KindOf(err) != github.NotFound || !w.deleted {
		return false, err
	}
	if gone, check := a.client.DeploymentGone(ctx, a.repo, id); check != nil || !gone {
		return false, err
	}
	return true, nil
}

// deactivate makes a Deployment inactive if it exists. If the manager stopped just before the
// creation was recorded, only GitHub knows whether the Deployment exists.
func (a *access) deactivate(ctx context.Context, prefix string, w write) (int64, error) {
	id := w.deployment.DeploymentID
	if id == 0 {
		made, err := a.client.Deployments(ctx, a.repo, prefix, w.deployment.Ref, w.deployment.Environment)
		if err != nil || len(made.Items) == 0 {
			return 0, err
		}
		id = made.Items[len(made.Items)-1].ID
	}
	_, err := a.client.SetDeploymentStatus(ctx, a.repo, id, github.DeploymentStatus{State: github.Inactive, Description: w.want.description})
	gone, err := a.isGone(ctx, w, id, err)
	if gone {
		return 0, nil // there is nothing to make inactive
	}
	return id, err
}

func commentState(c *v1alpha1.CommentRecord) github.CommentState {
	return github.CommentState{ID: c.CommentID, Recreated: c.Deletions > 0, Dismissed: c.Deletions > 1}
}

// deletionsOf returns how many times a comment was deleted.
func deletionsOf(s github.CommentState) int32 {
	switch {
	case s.Dismissed:
		return 2
	case s.Recreated:
		return 1
	}
	return 0
}

// affectsAllWrites reports whether an error affects all writes, and not only the write that failed.
func affectsAllWrites(err error) bool {
	switch github.KindOf(err) {
	case github.Unauthorized, github.Blocked, github.RateLimited, github.Reserved, github.Unreachable, github.Refused, github.BadConfig:
		return true
	}
	return false
}
