package githubtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer responds to a request that is authenticated and permitted.
func (s *Server) answer(x *exchange) {
	const repo = "/repos/{owner}/{repo}"
	switch x.route.name() {
	case "GET " + repo:
		s.write(x, http.StatusOK, s.repository(x.repo), "")
	case "GET " + repo + "/pulls":
		s.listPulls(x)
	case "GET " + repo + "/pulls/{pull_number}":
		n := x.number("pull_number")
		if n < 1 || n > len(x.repo.pulls) {
			s.refuse(x, "not-found", nil)
			return
		}
		p := x.repo.pulls[n-1]
		s.write(x, http.StatusOK, s.pull(x.repo, p, "pull-request"), "")
		x.repo.mergeAfterRead(p)
	case "GET " + repo + "/releases":
		list(s, x, newestFirst(x.repo.releases), func(r *Release) any { return s.release(x.repo, r) })
	case "GET " + repo + "/tags":
		list(s, x, x.repo.tags, func(t Tag) any {
			return s.fill("tag", fields{"name": t.Name, "commit": map[string]any{"sha": t.SHA, "url": x.base + "/repos/" + x.repo.FullName() + "/commits/" + t.SHA}})
		})
	case "GET " + repo + "/git/commits/{commit_sha}":
		s.getCommit(x)
	case "GET " + repo + "/deployments":
		s.listDeployments(x)
	case "POST " + repo + "/deployments":
		s.createDeployment(x)
	case "GET " + repo + "/deployments/{deployment_id}":
		if d := s.deploymentOf(x); d != nil {
			s.write(x, http.StatusOK, s.deployment(x, d), "")
		}
	case "GET " + repo + "/deployments/{deployment_id}/statuses":
		if d := s.deploymentOf(x); d != nil {
			statuses := slices.Clone(d.Statuses)
			slices.Reverse(statuses)
			list(s, x, statuses, func(t DeploymentStatus) any { return s.status(x, d, t) })
		}
	case "POST " + repo + "/deployments/{deployment_id}/statuses":
		if d := s.deploymentOf(x); d != nil {
			s.createStatus(x, d)
		}
	case "POST " + repo + "/statuses/{sha}":
		s.createCommitStatus(x)
	case "GET " + repo + "/issues/{issue_number}/comments":
		s.listComments(x)
	case "POST " + repo + "/issues/{issue_number}/comments":
		s.createComment(x)
	case "GET " + repo + "/issues/comments/{comment_id}", "PATCH " + repo + "/issues/comments/{comment_id}":
		s.oneComment(x)
	case "GET /user":
		s.write(x, http.StatusOK, s.user(x.who.login), "")
	case "GET /app":
		s.write(x, http.StatusOK, s.fill("app", fields{"id": x.app.id, "slug": x.app.slug()}), "")
	case "GET /orgs/{org}/installation":
		s.getInstallation(x, x.params["org"], false)
	case "GET /users/{username}/installation":
		s.getInstallation(x, x.params["username"], true)
	case "POST /app/installations/{installation_id}/access_tokens":
		s.createToken(x)
	default:
		s.fail("the server does not support %s", x.route.name())
		s.refuse(x, "server-error", nil)
	}
}

// fill returns an example with the given field values. It records a failure if there is no such example, or if the example lacks one of these fields.
func (s *Server) fill(name string, values fields) map[string]any {
	body, err := s.reference.fill(name, values)
	if err != nil {
		s.fail("%v", err)
	}
	return body
}

// list responds with one page and the links to other pages.
func list[T any](s *Server, x *exchange, all []T, render func(T) any) {
	size, page := 30, max(1, x.number("page"))
	if n := x.number("per_page"); n > 0 {
		size = min(n, 100)
	}
	last := max(1, (len(all)+size-1)/size)
	items := []any{}
	if page <= last {
		for _, item := range all[(page-1)*size : min(page*size, len(all))] {
			items = append(items, render(item))
		}
	}
	address := func(n int) string {
		query := x.r.URL.Query()
		query.Set("page", strconv.Itoa(n))
		return fmt.Sprintf("%s%s?%s", x.base, strings.TrimPrefix(x.r.URL.Path, Prefix), query.Encode())
	}
	var links []string
	add := func(rel string, n int) { links = append(links, fmt.Sprintf(`<%s>; rel="%s"`, address(n), rel)) }
	if page > 1 {
		add("prev", min(page-1, last))
	}
	if page < last {
		add("next", page+1)
		add("last", last)
	}
	if page > 1 {
		add("first", 1)
	}
	s.write(x, http.StatusOK, items, strings.Join(links, ", "))
}

func newestFirst[T any](all []T) []T {
	reversed := slices.Clone(all)
	slices.Reverse(reversed)
	return reversed
}

func date(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

func (s *Server) user(login string) any {
	return s.fill("user", fields{"login": login, "html_url": "https://github.com/" + login})
}

// web returns the URL of a repository's web page.
func web(r *Repository) string { return "https://github.com/" + r.FullName() }

func (s *Server) repository(r *Repository) map[string]any {
	visibility := map[bool]string{true: "private", false: "public"}[r.private]
	return s.fill("repository", fields{
		"id": r.id, "name": r.name, "full_name": r.FullName(), "owner": s.user(r.owner), "private": r.private,
		"visibility": visibility, "html_url": web(r), "archived": r.archived,
	})
}

func (s *Server) pull(r *Repository, p *PullRequest, example string) map[string]any {
	own := s.repository(r)
	var headRepo any = own
	headOwner := r.owner
	if p.Fork != "" {
		owner, name, _ := strings.Cut(p.Fork, "/")
		headOwner = owner
		headRepo = s.fill("repository", fields{
			"id": r.id*1_000_000 + int64(p.Number), "name": name, "full_name": p.Fork, "owner": s.user(owner), "fork": true,
			"html_url": "https://github.com/" + p.Fork,
		})
	}
	if p.ForkDeleted {
		headRepo = nil
	}
	var author any
	if !p.AuthorDeleted {
		author = s.user(p.Author)
	}
	labels := []any{}
	for i, name := range p.Labels {
		labels = append(labels, s.fill("label", fields{"id": i + 1, "name": name}))
	}
	state := map[bool]string{true: "closed", false: "open"}[p.Closed]
	var merged time.Time
	if p.Merged {
		merged = p.ClosedAt
	}
	var merge any
	if p.MergeCommitSHA != "" {
		merge = p.MergeCommitSHA
	}
	body := fields{
		"id": r.id*1000 + int64(p.Number), "number": p.Number, "state": state, "title": p.Title, "user": author, "draft": p.Draft,
		"labels": labels, "author_association": p.Association, "locked": p.Locked, "html_url": fmt.Sprintf("%s/pull/%d", web(r), p.Number),
		"created_at": date(p.CreatedAt), "updated_at": date(p.UpdatedAt), "closed_at": date(p.ClosedAt), "merged_at": date(merged),
		"merge_commit_sha": merge,
		"head":             map[string]any{"label": headOwner + ":" + p.HeadRef, "ref": p.HeadRef, "sha": p.HeadSHA, "user": author, "repo": headRepo},
		"base":             map[string]any{"label": r.owner + ":" + p.BaseRef, "ref": p.BaseRef, "sha": strings.Repeat("0", 40), "user": s.user(r.owner), "repo": own},
	}
	if example == "pull-request" {
		body["merged"] = p.Merged
	}
	return s.fill(example, body)
}

func (s *Server) listPulls(x *exchange) {
	state := cmp.Or(x.query.Get("state"), "open")
	order, descending := cmp.Or(x.query.Get("sort"), "created"), x.query.Get("direction")
	if descending == "" && order == "created" {
		descending = "desc"
	}
	if !slices.Contains([]string{"open", "closed", "all"}, state) || !slices.Contains([]string{"created", "updated"}, order) {
		s.fail("%s: the server does not support state=%s, sort=%s", x.route.name(), state, order)
		s.refuse(x, "validation", nil)
		return
	}
	var wanted []*PullRequest
	for _, p := range x.repo.pulls {
		if (state == "all" || (state == "closed") == p.Closed) && (x.query.Get("base") == "" || x.query.Get("base") == p.BaseRef) {
			wanted = append(wanted, p)
		}
	}
	if order == "updated" {
		slices.SortStableFunc(wanted, func(a, b *PullRequest) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
	}
	if descending == "desc" {
		slices.Reverse(wanted)
	}
	list(s, x, wanted, func(p *PullRequest) any { return s.pull(x.repo, p, "pull-request-in-list") })
}

func (s *Server) release(r *Repository, release *Release) map[string]any {
	return s.fill("release", fields{
		"id": release.ID, "tag_name": release.Tag, "name": release.Name, "draft": release.Draft, "prerelease": release.Prerelease,
		"published_at": date(release.Published), "html_url": web(r) + "/releases/tag/" + release.Tag,
	})
}

func (s *Server) getCommit(x *exchange) {
	sha := x.params["commit_sha"]
	committed, known := x.repo.commits[sha]
	if !known {
		s.refuse(x, "not-found", nil)
		return
	}
	who := map[string]any{"date": date(committed), "name": "Monalisa Octocat", "email": "octocat@github.com"}
	s.write(x, http.StatusOK, s.fill("commit", fields{"sha": sha, "author": who, "committer": who, "parents": s.parents(x, sha)}), "")
}

func (x *exchange) deployment(d *Deployment) string {
	return fmt.Sprintf("%s/repos/%s/deployments/%d", x.base, x.repo.FullName(), d.ID)
}

func (s *Server) deployment(x *exchange, d *Deployment) map[string]any {
	address := x.deployment(d)
	return s.fill("deployment", fields{
		"id": d.ID, "url": address, "statuses_url": address + "/statuses", "sha": d.SHA, "ref": d.Ref, "task": d.Task, "payload": d.Payload,
		"environment": d.Environment, "original_environment": d.Environment, "description": d.Description, "creator": s.user(d.Creator),
		"created_at": date(d.created), "updated_at": date(d.created),
		"transient_environment": d.Transient, "production_environment": d.Production,
	})
}

func (s *Server) listDeployments(x *exchange) {
	var wanted []*Deployment
	for _, d := range newestFirst(x.repo.deployments) {
		matches := true
		for name, value := range map[string]string{"sha": d.SHA, "ref": d.Ref, "task": d.Task, "environment": d.Environment} {
			matches = matches && (x.query.Get(name) == "" || x.query.Get(name) == value)
		}
		if matches {
			wanted = append(wanted, d)
		}
	}
	list(s, x, wanted, func(d *Deployment) any { return s.deployment(x, d) })
}

func (s *Server) deploymentOf(x *exchange) *Deployment {
	for _, d := range x.repo.deployments {
		if strconv.FormatInt(d.ID, 10) == x.params["deployment_id"] {
			return d
		}
	}
	s.refuse(x, "not-found", nil)
	return nil
}

// text returns a string field of the body, or the given default if the body has no such string.
func (x *exchange) text(name, otherwise string) string {
	if value, ok := x.body[name].(string); ok {
		return value
	}
	return otherwise
}

// yes returns a boolean field of the body, or the given default if the body has no such boolean.
func (x *exchange) yes(name string, otherwise bool) bool {
	if value, ok := x.body[name].(bool); ok {
		return value
	}
	return otherwise
}

func (s *Server) createDeployment(x *exchange) {
	d := &Deployment{
		Ref: x.text("ref", ""), Task: x.text("task", "deploy"), Environment: x.text("environment", "production"), Description: x.text("description", ""),
		Payload: x.body["payload"], Transient: x.yes("transient_environment", false), AutoMerge: x.yes("auto_merge", true), Creator: x.who.login, created: s.now(),
	}
	d.Production = x.yes("production_environment", d.Environment == "production")
	contexts, given := x.body["required_contexts"].([]any)
	d.WantedChecks = !given || len(contexts) > 0
	d.SHA = d.Ref
	for _, p := range x.repo.pulls {
		if p.HeadRef == d.Ref && p.Fork == "" {
			d.SHA = p.HeadSHA
		}
	}
	if d.Payload == nil {
		d.Payload = ""
	}
	_, known := x.repo.commits[d.SHA]
	switch {
	case !known, len(d.Description) > 140:
		s.refuse(x, "validation", nil)
	case d.AutoMerge && x.repo.behind:
		s.refuse(x, "deployment-merged", nil)
	case d.WantedChecks && x.repo.checks:
		s.refuse(x, "deployment-conflict", nil)
	default:
		d.ID = s.nextID()
		x.repo.deployments = append(x.repo.deployments, d)
		s.write(x, http.StatusCreated, s.deployment(x, d), "")
	}
}

func (s *Server) status(x *exchange, d *Deployment, t DeploymentStatus) map[string]any {
	address := x.deployment(d)
	return s.fill("deployment-status", fields{
		"id": t.ID, "url": fmt.Sprintf("%s/statuses/%d", address, t.ID), "deployment_url": address,
		"state": t.State, "description": t.Description, "environment": d.Environment, "environment_url": t.EnvironmentURL,
		"log_url": t.LogURL, "target_url": t.LogURL, "creator": s.user(t.Owner), "created_at": date(t.created), "updated_at": date(t.created),
	})
}

func (s *Server) createStatus(x *exchange, d *Deployment) {
	t := DeploymentStatus{
		State: x.text("state", ""), Description: x.text("description", ""), EnvironmentURL: x.text("environment_url", ""), LogURL: x.text("log_url", ""),
		Owner: x.who.login, created: s.now(),
	}
	states := []string{"error", "failure", "inactive", "in_progress", "queued", "pending", "success"}
	link := t.EnvironmentURL == "" || strings.HasPrefix(t.EnvironmentURL, "https://") || strings.HasPrefix(t.EnvironmentURL, "http://")
	if !slices.Contains(states, t.State) || len(t.Description) > 140 || !link {
		s.refuse(x, "validation", nil)
		return
	}
	if t.State == "success" && x.yes("auto_inactive", true) {
		for _, other := range x.repo.deployments {
			if other != d && other.Environment == d.Environment && !other.Transient && !other.Production {
				other.Statuses = append(other.Statuses, DeploymentStatus{ID: s.nextID(), State: "inactive", Owner: x.who.login, created: s.now()})
			}
		}
	}
	t.ID = s.nextID()
	d.Statuses = append(d.Statuses, t)
	s.write(x, http.StatusCreated, s.status(x, d, t), "")
}

// maxCommitStatuses is the maximum number of statuses for each commit and context.
const maxCommitStatuses = 1000

func (s *Server) createCommitStatus(x *exchange) {
	sha := x.params["sha"]
	t := CommitStatus{
		State: x.text("state", ""), Context: x.text("context", "default"), Description: x.text("description", ""), TargetURL: x.text("target_url", ""),
		Owner: x.who.login,
	}
	same := 0
	for _, other := range x.repo.commitStatuses[sha] {
		if other.Context == t.Context {
			same++
		}
	}
	_, known := x.repo.commits[sha]
	if !known || len(t.Description) > 140 || same == maxCommitStatuses {
		s.refuse(x, "validation", nil)
		return
	}
	t.ID = s.nextID()
	x.repo.commitStatuses[sha] = append(x.repo.commitStatuses[sha], t)
	body := fields{
		"id": t.ID, "url": fmt.Sprintf("%s/repos/%s/statuses/%s", x.base, x.repo.FullName(), sha), "state": t.State, "context": t.Context,
		"description": t.Description, "target_url": t.TargetURL, "creator": s.user(t.Owner), "created_at": date(s.now()), "updated_at": date(s.now()),
	}
	s.write(x, http.StatusCreated, s.fill("commit-status", body), "")
}

func (s *Server) comment(x *exchange, c *Comment) map[string]any {
	return s.fill("comment", fields{
		"id": c.ID, "body": c.Body, "user": s.user(c.Author), "created_at": date(c.created), "updated_at": date(c.updated),
		"url":       fmt.Sprintf("%s/repos/%s/issues/comments/%d", x.base, x.repo.FullName(), c.ID),
		"html_url":  fmt.Sprintf("%s/pull/%d#issuecomment-%d", web(x.repo), c.Number, c.ID),
		"issue_url": fmt.Sprintf("%s/repos/%s/issues/%d", x.base, x.repo.FullName(), c.Number),
	})
}

func (s *Server) issueOf(x *exchange) (int, bool) {
	n := x.number("issue_number")
	if n < 1 || n > len(x.repo.pulls) {
		s.refuse(x, "not-found", nil)
		return 0, false
	}
	return n, true
}

func (s *Server) listComments(x *exchange) {
	n, ok := s.issueOf(x)
	if !ok {
		return
	}
	var wanted []*Comment
	for _, c := range x.repo.comments {
		if c.Number == n {
			wanted = append(wanted, c)
		}
	}
	list(s, x, wanted, func(c *Comment) any { return s.comment(x, c) })
}

// maxComment is the maximum number of characters in a comment.
const maxComment = 65536

func (s *Server) createComment(x *exchange) {
	n, ok := s.issueOf(x)
	if !ok {
		return
	}
	if x.repo.pulls[n-1].Locked {
		s.refuse(x, "locked", nil)
		return
	}
	body := x.text("body", "")
	if body == "" || len([]rune(body)) > maxComment {
		s.refuse(x, "validation", nil)
		return
	}
	s.write(x, http.StatusCreated, s.comment(x, x.repo.addComment(n, x.who.login, body)), "")
}

func (s *Server) oneComment(x *exchange) {
	at := slices.IndexFunc(x.repo.comments, func(c *Comment) bool { return strconv.FormatInt(c.ID, 10) == x.params["comment_id"] })
	if at < 0 {
		s.refuse(x, "not-found", nil)
		return
	}
	c := x.repo.comments[at]
	if x.r.Method == http.MethodPatch {
		body := x.text("body", "")
		if body == "" || len([]rune(body)) > maxComment {
			s.refuse(x, "validation", nil)
			return
		}
		c.Body, c.updated = body, s.now()
	}
	s.write(x, http.StatusOK, s.comment(x, c), "")
}

// slug returns the name of the App as it appears in the login of the App's bot.
func (a *app) slug() string {
	for _, i := range a.installations {
		return strings.TrimSuffix(i.pattern.login, "[bot]")
	}
	return "heighliner"
}

func (s *Server) getInstallation(x *exchange, owner string, user bool) {
	for _, i := range x.app.installations {
		if strings.EqualFold(i.owner, owner) && i.user == user {
			kind := map[bool]string{true: "User", false: "Organization"}[user]
			s.write(x, http.StatusOK, s.fill("installation", fields{
				"id": i.id, "account": s.user(i.owner), "target_type": kind,
				"access_tokens_url": fmt.Sprintf("%s/app/installations/%d/access_tokens", x.base, i.id),
			}), "")
			return
		}
	}
	s.refuse(x, "not-found", nil)
}

func (s *Server) createToken(x *exchange) {
	id, _ := strconv.ParseInt(x.params["installation_id"], 10, 64)
	i := x.app.installations[id]
	if i == nil {
		s.refuse(x, "not-found", nil)
		return
	}
	if i.suspended {
		s.refuse(x, "suspended", nil)
		return
	}
	a := i.pattern
	a.token, a.expires = fmt.Sprintf("%s%d", tokenPrefix(id), s.nextID()), s.now().Add(tokenAge)
	s.actors[a.token] = &a
	granted := map[string]any{}
	for name, level := range a.permissions {
		granted[name] = level
	}
	s.write(x, http.StatusCreated, s.fill("installation-token", fields{"token": a.token, "expires_at": date(a.expires), "permissions": granted}), "")
}

// decode returns a copy of a body. The copy may be changed.
func decode(body any) map[string]any {
	text, _ := json.Marshal(body)
	var copied map[string]any
	json.Unmarshal(text, &copied)
	return copied
}
