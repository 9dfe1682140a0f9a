package feedback

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
)

// githubRepository is a repository on GitHub. If a GitHubRepository is changed to refer to
// another repository, feedback is removed from the previous repository.
type githubRepository struct {
	id   int64  // 0 if not known
	name string // owner/name on GitHub; empty before the first poll
}

func repositoryOf(ghr *v1alpha1.GitHubRepository) githubRepository {
	return githubRepository{ghr.Status.RepositoryID, ghr.Status.Repository}
}

func repositoryOfRecord(r *v1alpha1.FeedbackRecord) githubRepository {
	return githubRepository{r.RepositoryID, r.Repository}
}

func repositoryOfComment(c *v1alpha1.CommentRecord) githubRepository {
	return githubRepository{c.RepositoryID, c.Repository}
}

// same reports whether s and other are the same repository, even if the repository was renamed. Feedback that
// was written before the first poll counts as feedback in the current repository.
func (s githubRepository) same(other githubRepository) bool {
	switch {
	case s.id != 0 && other.id != 0:
		return s.id == other.id
	case s.name == "" || other.name == "":
		return true
	}
	return strings.EqualFold(s.name, other.name)
}

// resolve returns s with the name and ID of the current repository (today) if s is the current repository. Otherwise,
// it returns s unchanged.
func (s githubRepository) resolve(today githubRepository) githubRepository {
	if !s.same(today) {
		return s
	}
	return githubRepository{cmp.Or(today.id, s.id), cmp.Or(today.name, s.name)}
}

// otherThan returns an identifier of the repository s, or "" if s is the current repository (today).
func (s githubRepository) otherThan(today githubRepository) string {
	switch {
	case s.same(today):
		return ""
	case s.id != 0:
		return strconv.FormatInt(s.id, 10)
	}
	return strings.ToLower(s.name)
}

// locate finds the credentials and the current name of a repository. Writes must not use a
// previous name, because another repository may have this name by now.
func (r *Reconciler) locate(ctx context.Context, ghr *v1alpha1.GitHubRepository, s githubRepository, last *access) (*access, error) {
	repo := github.Repo{Owner: ghr.Spec.Owner, Name: ghr.Spec.Repo}
	if s.name != "" {
		repo.Owner, repo.Name, _ = strings.Cut(s.name, "/")
	}
	a, err := r.access(ctx, ghr, repo, last)
	if err != nil {
		return nil, err
	}
	var today github.Repository
	if s.id != 0 {
		today, err = a.client.RepositoryByID(ctx, s.id)
	} else {
		today, err = a.client.Repository(ctx, repo)
	}
	return &access{client: a.client, repo: today.Repo}, err
}
