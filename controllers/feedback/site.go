package feedback

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
)

// site is a repository at GitHub. A GitHubRepository may be pointed at another one:
// what was written at the former one is taken back there.
type site struct {
	id   int64  // 0: not known
	name string // owner/name, as GitHub called it; "" before the first look
}

func siteOf(ghr *v1alpha1.GitHubRepository) site {
	return site{ghr.Status.RepositoryID, ghr.Status.Repository}
}

func siteOfRecord(r *v1alpha1.FeedbackRecord) site { return site{r.RepositoryID, r.Repository} }

func siteOfComment(c *v1alpha1.CommentRecord) site { return site{c.RepositoryID, c.Repository} }

// is says that both are the same repository, whatever it is called. What was written
// before the first look is in the repository that was found then.
func (s site) is(other site) bool {
	switch {
	case s.id != 0 && other.id != 0:
		return s.id == other.id
	case s.name == "" || other.name == "":
		return true
	}
	return strings.EqualFold(s.name, other.name)
}

// current is s by the name and number of today's repository, if it is that one.
func (s site) current(today site) site {
	if !s.is(today) {
		return s
	}
	return site{cmp.Or(today.id, s.id), cmp.Or(today.name, s.name)}
}

// from names a repository where it is another one than today's; "" for that.
func (s site) from(today site) string {
	switch {
	case s.is(today):
		return ""
	case s.id != 0:
		return strconv.FormatInt(s.id, 10)
	}
	return strings.ToLower(s.name)
}

// visit finds out how a repository is written to, and where it is today: it takes no
// write under a former name, which may even be another's by now.
func (r *Reconciler) visit(ctx context.Context, ghr *v1alpha1.GitHubRepository, s site, last *access) (*access, error) {
	repo := github.Repo{Owner: ghr.Spec.Owner, Name: ghr.Spec.Repo}
	if s.name != "" {
		repo.Owner, repo.Name, _ = strings.Cut(s.name, "/")
	}
	a, err := r.open(ctx, ghr, repo, last)
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
