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

// defaultEnvironment is the template of environments where the repository names none.
const defaultEnvironment = "{{.Microservice}}/{{.ReleaseGroupName}}"

// maxEnvironment is the longest name of an environment that GitHub and the status
// take.
const maxEnvironment = 255

// environmentOf fills the template of an environment. pr is nil for a release.
func environmentOf(template string, s *stream, slug string, pr *v1alpha1.PullRequest) string {
	number, branch := "", ""
	if pr != nil {
		number, branch = strconv.FormatInt(pr.Number, 10), pr.HeadRef
	}
	name := strings.NewReplacer(
		"{{.Number}}", number, "{{.Branch}}", branch, "{{.ReleaseGroupName}}", slug,
		"{{.Microservice}}", s.microservice.Name, "{{.Namespace}}", s.microservice.Namespace,
	).Replace(cmp.Or(template, defaultEnvironment))
	// GitHub has no environments with these characters.
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

// slugOf is the slug of a pull request's group, also before there is a group.
func (s *stream) slugOf(pr *v1alpha1.PullRequest) string {
	if g := s.group(pr.Number); g != nil {
		return g.Slug
	}
	for _, offered := range s.policy.Status.Releases {
		if offered.PullRequest == pr.Number {
			return offered.Group
		}
	}
	return preview.Slug(pr.HeadRef, pr.Number)
}

// checksum of what is written, in short.
func checksum(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%q", part)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// short is a commit as people write it.
func short(sha string) string { return sha[:min(7, len(sha))] }

// Texts of comments on pull requests of which nothing more is told.
const (
	textClosed = "The pull request is closed: its previews are taken down."
	textEnded  = "Previews of this pull request are not reported any more."
	textNone   = "This pull request has no preview."
)

// row of a comment.
type row struct {
	microservice string // namespace/name
	environment  string
	ref          string
	verdict
	// serving is the former commit that is served until this one is ready; "" for none.
	serving string
}

// stateNames are the states as people read them.
var stateNames = map[v1alpha1.DeploymentState]string{
	v1alpha1.DeploymentQueued: "queued", v1alpha1.DeploymentInProgress: "in progress", v1alpha1.DeploymentSuccess: "ready",
	v1alpha1.DeploymentFailure: "failed", v1alpha1.DeploymentInactive: "inactive",
}

// plainURL is an address that Markdown takes as it is between angle brackets.
var plainURL = regexp.MustCompile(`^https?://[A-Za-z0-9.:/_~%-]+$`)

// rowsAtMost are in one comment: it stays far below GitHub's limit.
const rowsAtMost = 50

// commentText is the table of a pull request's previews. It holds no time, so that it
// is the same as long as the state is.
func commentText(rows []row) string {
	if len(rows) == 0 {
		return textNone
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(strings.Compare(a.microservice, b.microservice), strings.Compare(a.environment, b.environment))
	})
	var out strings.Builder
	out.WriteString("### Previews\n\n| Microservice | State | URL | Commit |\n| --- | --- | --- | --- |\n")
	for _, r := range rows[:min(len(rows), rowsAtMost)] {
		state := "**" + stateNames[r.state] + "**"
		if r.state != v1alpha1.DeploymentSuccess {
			state += ". " + github.EscapeMarkdown(r.text, 200)
		}
		if r.serving != "" {
			state += " `" + short(r.serving) + "` is served meanwhile."
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
	if more := len(rows) - rowsAtMost; more > 0 {
		fmt.Fprintf(&out, "\nand %d more.\n", more)
	}
	return out.String()
}
