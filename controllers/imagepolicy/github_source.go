package imagepolicy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/preview"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/version"
)

// sourceOf returns the kind of source, as reported in status.source.
func sourceOf(p *v1alpha1.ImagePolicy) string {
	switch src := p.Spec.Source; {
	case src == nil:
	case src.Pinned != nil:
		return "pinned"
	case src.GitHub == nil:
	case src.GitHub.Releases != nil:
		return "github releases"
	case src.GitHub.Tags != nil:
		return "github tags"
	default:
		return "github pull requests"
	}
	return "registry"
}

// github is the content of a policy's GitHubRepository.
type github struct {
	source *v1alpha1.GitHubSource
	// known reports whether GitHub was polled at least once.
	known bool
	// current reports whether the last poll used the current specification and succeeded.
	// If it is false, filters do not withdraw pull requests.
	current bool
	// id is the ID of the repository that the pull requests are from, as in status.repositoryID. It is
	// empty for other sources, and if the ID is not known.
	id string
	// url is the URL of the repository.
	url string
	// names are the names of releases or tags, and details contains their details by name.
	names   []version.Name
	details map[string]detail
	// pulls are the pull requests.
	pulls []v1alpha1.PullRequest
}

// detail contains the details of a version in its source.
type detail struct {
	time     *metav1.Time
	revision string
	url      string
}

// observeGitHub reads the GitHubRepository of the policy. It does not call GitHub.
func (r *Reconciler) observeGitHub(ctx context.Context, o *observed) error {
	if o.github == nil || o.policy.Spec.Suspend {
		return nil
	}
	const field = "spec.source.github.repositoryRef"
	key, _ := o.policy.GitHubRepositoryKey()
	if len(r.watched) > 0 && !slices.Contains(r.watched, key.Namespace) {
		o.addProblem(status.NewTerminal("RepositoryNotAllowed", fmt.Errorf("%s: the manager does not watch namespace %q: refer to a GitHubRepository in a watched namespace, or add the namespace to the chart value namespaces, or to the manager's --namespace flag", field, key.Namespace)))
		return nil
	}
	var repository v1alpha1.GitHubRepository
	err := r.Get(ctx, key, &repository)
	foreign := status.NewTerminal("RepositoryNotAllowed", fmt.Errorf("%s: namespace %q has no GitHubRepository %q that this namespace may use: create it, or set its spec.allowedNamespaces.from to All, or to Selector with a selector that matches the labels of this namespace", field, key.Namespace, key.Name))
	if apierrors.IsNotFound(err) && key.Namespace != o.policy.Namespace {
		o.addProblem(foreign) // same error as for a repository that is not allowed, so as not to reveal whether the repository exists
		return nil
	}
	if apierrors.IsNotFound(err) {
		o.addProblem(status.NewTerminal("RepositoryNotFound", fmt.Errorf("%s: GitHubRepository %q not found in namespace %q: create it, or correct the name", field, key.Name, key.Namespace)))
		return nil
	}
	if err != nil {
		return fmt.Errorf("get GitHubRepository %q: %w", key.Name, err)
	}
	allowed, err := r.allows(ctx, &repository, o.policy.Namespace)
	switch {
	case err != nil:
		return err
	case !allowed:
		o.addProblem(foreign)
		return nil
	}
	o.readRepository(&repository)
	return nil
}

// readRepository copies the policy's input from a GitHubRepository.
func (o *observed) readRepository(repository *v1alpha1.GitHubRepository) {
	g, st := o.github, &repository.Status
	ready := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady)
	switch {
	case st.Repository == "":
		o.addProblem(notReady(repository, "has not been polled yet"))
		return
	case g.source.PullRequests != nil && st.OpenPullRequests == nil:
		// status.pullRequests may be outdated, because it was read for an earlier ImagePolicy.
		o.addProblem(notReady(repository, "has not read the pull requests yet"))
		return
	case ready == nil || ready.Status != metav1.ConditionTrue:
		o.stale = notReady(repository, "is not ready")
	}
	base := strings.TrimSuffix(cmp.Or(repository.Spec.BaseURL, "https://github.com"), "/")
	g.current = o.stale == nil && st.ObservedGeneration == repository.Generation && !repository.Spec.Suspend
	g.url = base + "/" + st.Repository
	if g.source.PullRequests != nil {
		g.id = idOf(base, st.RepositoryID)
	}
	if o.repositoryChanged() && !g.current {
		o.addProblem(notReady(repository, "refers to a different repository than before, and has not been polled with its current specification"))
		return
	}
	g.known = true
	g.details = map[string]detail{}
	switch {
	case g.source.Releases != nil:
		commits := map[string]string{}
		for _, t := range st.Tags {
			commits[t.Name] = t.SHA
		}
		for _, rel := range st.Releases {
			g.names = append(g.names, version.Name{Text: rel.Tag, Prerelease: rel.Prerelease})
			g.details[rel.Tag] = detail{rel.PublishedTime, commits[rel.Tag], g.link("releases", "tag", rel.Tag)}
		}
	case g.source.Tags != nil:
		for _, t := range st.Tags {
			g.names = append(g.names, version.Name{Text: t.Name})
			g.details[t.Name] = detail{nil, t.SHA, g.link("tree", t.Name)}
		}
	default:
		g.pulls = st.PullRequests
	}
	o.query.listed = g.checksum(o)
}

// notReady returns an error with the message of a GitHubRepository's Ready condition. The error is terminal
// if a user must fix the problem.
func notReady(repository *v1alpha1.GitHubRepository, what string) *status.Error {
	message := "it has no status yet"
	if c := meta.FindStatusCondition(repository.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Message != "" {
		message = c.Reason + ": " + c.Message
	}
	err := fmt.Errorf("spec.source.github.repositoryRef: GitHubRepository %q %s: %s", repository.Name, what, message)
	if meta.IsStatusConditionTrue(repository.Status.Conditions, v1alpha1.ConditionStalled) {
		return status.NewTerminal("RepositoryNotReady", err)
	}
	return status.NewWaiting("RepositoryNotReady", 0, err)
}

// maxURL is the maximum length of the url of an offered release in the schema.
const maxURL = 512

// link returns a URL in the repository, or "" if the URL is too long.
func (g *github) link(words ...string) string {
	link := g.url
	for _, w := range words {
		link += "/" + strings.ReplaceAll(url.PathEscape(w), "%2F", "/")
	}
	if len(link) > maxURL {
		return ""
	}
	return link
}

// idOf returns an identifier of a repository on a server. The identifier does not change if the repository is
// renamed. idOf returns "" if the ID is not known.
func idOf(base string, number int64) string {
	server, err := url.Parse(base)
	if number == 0 || err != nil {
		return ""
	}
	host := strings.ToLower(server.Host)
	if host == "api.github.com" || host == "www.github.com" {
		host = "github.com"
	}
	return host + "/" + strconv.FormatInt(number, 10)
}

// repositoryChanged reports whether the offered pull requests belong to a repository other than the current
// one.
func (o *observed) repositoryChanged() bool {
	was := o.policy.Status.RepositoryID
	return was != "" && o.github.id != "" && was != o.github.id
}

// checksum returns a checksum of a scan's input. If the checksum changes, a scan starts.
func (g *github) checksum(o *observed) string {
	type head struct {
		Number     int64
		SHA, Merge string
		Time       *metav1.Time
		Choice     preview.Choice
	}
	var heads []head
	for i := range g.pulls {
		if pr := &g.pulls[i]; o.chooser != nil && pr.State == v1alpha1.PullRequestOpen {
			heads = append(heads, head{pr.Number, pr.HeadSHA, pr.MergeSHA, pr.HeadTime, o.chooser.Choose(pr)})
		}
	}
	return checksum(g.names, heads)
}

// checksum returns a checksum of values in JSON.
func checksum(values ...any) string {
	raw, err := json.Marshal(values)
	if err != nil { // cannot happen for plain data
		return err.Error()
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// originOf returns the origin of a policy's versions. The images of pull requests are requested individually.
// Therefore, the origin for pull requests includes the requirements for images, so that a change to the
// requirements causes new requests for the images.
func originOf(p *v1alpha1.ImagePolicy, o *observed) origin {
	og := origin{repository: p.Spec.Image, insecure: p.Spec.Insecure, source: sourceOf(p), pinned: strings.Join(o.pinned, "\n")}
	for _, x := range p.Spec.AdditionalImages {
		og.further += x.Image + "\n"
	}
	for _, ref := range p.Spec.ImagePullSecrets {
		og.secrets += ref.Name + "\n"
	}
	if ref := p.Spec.CertSecretRef; ref != nil {
		og.secrets += "cert " + ref.Name + "\n"
	}
	if v := p.Spec.Verify; v != nil {
		og.secrets += "key " + v.Cosign.KeySecretRef.Name + "\n"
	}
	if o.github != nil {
		key, _ := p.GitHubRepositoryKey()
		og.source += " " + key.String()
		if o.github.source.PullRequests != nil {
			og.source += " " + checksum(p.Spec.Match, o.platforms, p.Spec.AdditionalImages, o.github.source.PullRequests.Forks)
		}
	}
	return og
}

// checkLabels rejects variables in spec.match.labels that the source does not provide.
func checkLabels(p *v1alpha1.ImagePolicy) error {
	if p.Spec.Match == nil {
		return nil
	}
	known := preview.Vars{Tag: "tag"}
	switch source := sourceOf(p); source {
	case "github releases", "github tags":
		known.SHA = "sha"
	case "github pull requests":
		known.SHA, known.Number, known.Branch = "sha", "1", "branch"
	}
	for i, l := range p.Spec.Match.Labels {
		if _, err := known.Expand(l.Value); err != nil {
			return fmt.Errorf("spec.match.labels[%d].value: %w: {{.SHA}} is available for GitHub sources, and {{.Number}}, {{.SHA7}} and {{.Branch}} for pull requests", i, err)
		}
	}
	return nil
}

// compile compiles the policy's rules. The error contains the names of the invalid fields.
func (o *observed) compile() error {
	p := o.policy
	var errs []error
	src, wanted := p.Spec.Source, rules(&p.Spec)
	pulls := src != nil && src.GitHub != nil && src.GitHub.PullRequests != nil
	if pulls {
		wanted.Limits = version.Limits{} // limits on versions do not apply to pull requests
	}
	selector, err := version.Compile(wanted)
	if err != nil {
		errs = append(errs, errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	if pulls {
		var candidates []string
		if p.Spec.Match != nil {
			candidates = p.Spec.Match.Candidates
		}
		if o.chooser, err = preview.Compile(*src.GitHub.PullRequests, candidates); err != nil {
			errs = append(errs, err)
		}
	}
	if err := checkLabels(p); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		o.chooser = nil
		return errors.New(status.Line(strings.ReplaceAll(errors.Join(errs...).Error(), "\n", "; ")))
	}
	o.selector = selector
	return nil
}

// allows reports whether a namespace may use a GitHubRepository. The namespace is read from the API
// server, and only if its labels are needed.
func (r *Reconciler) allows(ctx context.Context, repository *v1alpha1.GitHubRepository, namespace string) (bool, error) {
	var ns corev1.Namespace
	if repository.NeedsNamespaceLabels(namespace) {
		if err := r.namespaces.Get(ctx, client.ObjectKey{Name: namespace}, &ns); err != nil {
			return false, fmt.Errorf("get Namespace %q: %w", namespace, err)
		}
	}
	allowed, err := repository.AllowsNamespace(namespace, ns.Labels)
	if err != nil {
		return false, nil // the GitHubRepository reports the error
	}
	return allowed, nil
}
