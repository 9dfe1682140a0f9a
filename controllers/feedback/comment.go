package feedback

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/preview"
)

// defaultEnvironment is the default template for environment names.
const defaultEnvironment = "{{.Microservice}}/{{.ReleaseGroupName}}"

// maxEnvironment is the maximum length of an environment name on GitHub and in the status.
const maxEnvironment = 255

// environmentOf expands the template of an environment name. pr is nil for a release.
func environmentOf(template string, s *service, slug string, pr *v1alpha1.PullRequest) string {
	number, branch := "", ""
	if pr != nil {
		number, branch = strconv.FormatInt(pr.Number, 10), pr.HeadRef
	}
	name := strings.NewReplacer(
		"{{.Number}}", number, "{{.Branch}}", branch, "{{.ReleaseGroupName}}", slug,
		"{{.Microservice}}", s.microservice.Name, "{{.Namespace}}", s.microservice.Namespace,
	).Replace(cmp.Or(template, defaultEnvironment))
	// GitHub does not allow these characters in environment names.
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || strings.ContainsRune("'\"`,;\\", r) {
			return '-'
		}
		return r
	}, strings.ToValidUTF8(name, "-"))
	if len(name) > maxEnvironment {
		sum := "-" + checksum(name)
		name = strings.ToValidUTF8(name[:maxEnvironment-len(sum)], "") + sum
	}
	return cmp.Or(name, s.microservice.Name)
}

// slugOf returns the slug of a pull request's group, even if the group does not exist yet.
func (s *service) slugOf(pr *v1alpha1.PullRequest) string {
	if g := s.groupOf(pr.Number); g != nil {
		return g.Slug
	}
	for _, offered := range s.policy.Status.Releases {
		if offered.PullRequest == pr.Number {
			return offered.Group
		}
	}
	return preview.Slug(pr.HeadRef, pr.Number)
}

// checksum returns a short hash of the given strings.
func checksum(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%q", part)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// short returns an abbreviated commit SHA.
func short(sha string) string { return sha[:min(7, len(sha))] }

// The texts of comments that contain no table.
const (
	textClosed      = "The pull request is closed. Its previews are deleted."
	textNotReported = "Previews of this pull request are no longer reported."
	textNone        = "This pull request has no preview."
)

// row is a row of a comment's table.
type row struct {
	microservice string // namespace/name
	environment  string
	ref          string
	releaseState
	// serving is the previous commit, which keeps serving until the new commit is ready; empty if there is none.
	serving string
}

// stateNames contains the name that comments use for each state.
var stateNames = map[v1alpha1.DeploymentState]string{
	v1alpha1.DeploymentQueued: "queued", v1alpha1.DeploymentInProgress: "in progress", v1alpha1.DeploymentSuccess: "ready",
	v1alpha1.DeploymentFailure: "failed", v1alpha1.DeploymentInactive: "inactive",
}

// plainURL matches URLs that need no escaping in Markdown between angle brackets.
var plainURL = regexp.MustCompile(`^https?://[A-Za-z0-9.:/_~%-]+$`)

// maxRows is the maximum number of rows in one comment. It usually keeps the comment far below GitHub's size limit.
const maxRows = 50

// commentText returns the table of a pull request's previews. The text contains no time, so that
// it changes only with the state.
func commentText(rows []row) string {
	if len(rows) == 0 {
		return textNone
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(strings.Compare(a.microservice, b.microservice), strings.Compare(a.environment, b.environment))
	})
	var out strings.Builder
	out.WriteString("### Previews\n\n| Microservice | State | URL | Commit |\n| --- | --- | --- | --- |\n")
	for _, r := range rows[:min(len(rows), maxRows)] {
		state := "**" + stateNames[r.state] + "**"
		if r.state != v1alpha1.DeploymentSuccess {
			state += ". " + github.EscapeMarkdown(r.description, 200)
		}
		if r.serving != "" {
			state += " `" + short(r.serving) + "` keeps serving in the meantime."
		}
		url := ""
		switch {
		case plainURL.MatchString(r.url):
			url = "<" + r.url + ">"
		case r.url != "":
			url = github.EscapeMarkdown(r.url, 500)
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | `%s` |\n", r.microservice, state, url, short(r.ref))
	}
	if more := len(rows) - maxRows; more > 0 {
		fmt.Fprintf(&out, "\nand %d more.\n", more)
	}
	return out.String()
}
