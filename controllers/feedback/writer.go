package feedback

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/status"
)

const (
	// defaultTasks is how many repositories are written to at a time.
	defaultTasks = 16
	// maxBatch is how many Deployments and comments one task writes: after it, what is
	// to be written is decided anew.
	maxBatch = 8
	// maxTask is the time of one task.
	maxTask = time.Minute
	// minBackoff and maxBackoff bound the wait after a failure; invalidBackoff is that
	// after GitHub said that it does not accept the value, or that the conversation is
	// locked.
	minBackoff     = 2 * time.Second
	maxBackoff     = 5 * time.Minute
	invalidBackoff = time.Hour
	// lostAfter is how long GitHub must not find a Deployment until it counts as deleted.
	lostAfter = time.Minute
	// maxVisits is how often what is in another repository is tried to be taken back
	// while GitHub answers that it is not there, or not for us.
	maxVisits = 10
)

// access is how a repository is written to.
type access struct {
	client *github.Client
	repo   github.Repo
}

// result is what became of one write.
type result struct {
	write
	// id of the Deployment; 0: there is none.
	id int64
	// comment, as it is to be kept.
	kept github.CommentState
	// err is why it is not written.
	err error
}

// outcome is what became of a task.
type outcome struct {
	access *access
	// found are the Deployments of which no record told; nil: nobody looked.
	found   []v1alpha1.FeedbackRecord
	looked  bool
	results []result
	// err is why the task ended early.
	err error
}

// failure is what is known of a write that failed, or, with key "", of all of them.
type failure struct {
	err      error
	checksum string
	count    int
	next     time.Time
	// since is when it failed in this way for the first time in a row.
	since time.Time
}

// remembered is what is known of one repository. A restart forgets it, which costs
// reads, and no write.
type remembered struct {
	uid  types.UID
	task *task
	// outcome that no reconcile has recorded yet.
	outcome *outcome
	// searched says that Deployments without a record were looked for.
	searched bool
	// access that was used last.
	access   *access
	failures map[string]failure
	// asked is what a person can change to have all tried at once.
	asked string
}

// task is a batch of writes that waits for its turn or is under way.
type task struct {
	repository types.NamespacedName
	places     []place
	work       func(context.Context) outcome
	cancel     context.CancelFunc // nil while it waits
}

// place is what tasks have in common that may slow down each other.
type place struct {
	host, namespace string
	// share of all tasks that may have it, as in one half.
	share int
}

// writer writes beside the reconciles: no method waits for GitHub.
type writer struct {
	clock clock.PassiveClock
	most  int // tasks under way at a time

	mu           sync.Mutex
	ctx          context.Context // nil before the start
	wake         func(types.NamespacedName)
	repositories map[types.NamespacedName]*remembered
	waiting      []*task // in the order in which they came
	running      map[place]int
}

// newWriter makes one that writes nothing before it is started.
func newWriter(c clock.PassiveClock, most int) *writer {
	return &writer{clock: c, most: most, repositories: map[types.NamespacedName]*remembered{}, running: map[place]int{}}
}

// start lets tasks begin until ctx ends; wake is told of each repository whose task
// is done. It may be called from any goroutine, and must not block.
func (w *writer) start(ctx context.Context, wake func(types.NamespacedName)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.wake = ctx, wake
	w.admit()
}

// of gives what is known of a repository. Whatever was known of an earlier one of
// its name is forgotten.
func (w *writer) of(repository types.NamespacedName, uid types.UID) remembered {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.repositories[repository]; m == nil || m.uid != uid {
		w.drop(repository)
		w.repositories[repository] = &remembered{uid: uid, failures: map[string]failure{}}
	}
	return *w.repositories[repository]
}

// forget a repository that is gone.
func (w *writer) forget(repository types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(repository)
}

func (w *writer) drop(repository types.NamespacedName) {
	m := w.repositories[repository]
	delete(w.repositories, repository)
	switch {
	case m == nil || m.task == nil:
	case m.task.cancel != nil:
		m.task.cancel()
	default:
		w.waiting = slices.DeleteFunc(w.waiting, func(t *task) bool { return t == m.task })
	}
}

// retry forgets failures when somebody asks for it by a new value.
func (w *writer) retry(repository types.NamespacedName, asked string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.repositories[repository]
	if m.asked != asked {
		m.asked = asked
		clear(m.failures)
	}
}

// recorded is told that the outcome of the last task is in the status.
func (w *writer) recorded(repository types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.repositories[repository]; m != nil {
		m.outcome = nil
	}
}

// begin has work done when it is its turn; there is no other task of the repository.
func (w *writer) begin(repository types.NamespacedName, host string, work func(context.Context) outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.repositories[repository]
	m.task = &task{repository: repository, work: work, places: []place{
		{share: 1}, {host: host, share: 2}, {namespace: repository.Namespace, share: 4},
	}}
	w.waiting = append(w.waiting, m.task)
	w.admit()
}

// admit lets those begin for whom there is room, the first first.
func (w *writer) admit() {
	if w.ctx == nil {
		return
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(t *task) bool {
		for _, p := range t.places {
			if w.running[p] >= max(1, w.most/p.share) {
				return false
			}
		}
		w.run(t)
		return true
	})
}

func (w *writer) run(t *task) {
	for _, p := range t.places {
		w.running[p]++
	}
	var ctx context.Context
	ctx, t.cancel = context.WithTimeout(w.ctx, maxTask)
	go func() {
		defer t.cancel()
		if w.done(t, t.work(ctx)) {
			w.wake(t.repository)
		}
	}()
}

// done gives the places back, notes what failed, and says whether anybody waits.
func (w *writer) done(t *task, out outcome) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range t.places {
		if w.running[p]--; w.running[p] == 0 {
			delete(w.running, p)
		}
	}
	w.admit()
	m := w.repositories[t.repository]
	if m == nil || m.task != t {
		return false
	}
	m.task, m.outcome = nil, &out
	m.searched = m.searched || out.looked
	if out.access != nil {
		m.access = out.access
	}
	for _, r := range out.results {
		m.note(r.key, r.checksum, r.err, w.clock.Now())
	}
	m.note("", "", out.err, w.clock.Now())
	return true
}

// note keeps or forgets a failure.
func (m *remembered) note(key, sum string, err error, now time.Time) {
	if err == nil {
		delete(m.failures, key)
		return
	}
	before := m.failures[key]
	f := failure{err: err, checksum: sum, count: before.count + 1, since: now}
	if before.err != nil && github.KindOf(before.err) == github.KindOf(err) {
		f.since = before.since
	}
	f.next = now.Add(min(minBackoff<<min(f.count-1, 16), maxBackoff))
	var failed *github.Error
	if errors.As(err, &failed) {
		switch {
		case !failed.RetryAt.IsZero() && failed.RetryAt.After(now):
			f.next = failed.RetryAt
		case failed.Kind == github.Invalid, failed.Kind == github.Locked:
			f.next = now.Add(invalidBackoff)
		}
	}
	m.failures[key] = f
}

// due says whether a write may be tried at now, and otherwise when.
func (m *remembered) due(w *write, now time.Time) (bool, time.Time) {
	f, failed := m.failures[w.key]
	changed := failed && github.KindOf(f.err) == github.Invalid && f.checksum != w.checksum
	return !failed || changed || !now.Before(f.next), f.next
}

// lost reports whether GitHub has not found what a write is about for so long that it
// counts as deleted.
func (m *remembered) lost(key string, now time.Time) bool {
	f, failed := m.failures[key]
	return failed && github.KindOf(f.err) == github.NotFound && now.Sub(f.since) >= lostAfter
}

// locked are the keys of the comments whose conversation is locked.
func (m *remembered) locked() map[string]bool {
	keys := map[string]bool{}
	for key, f := range m.failures {
		if github.KindOf(f.err) == github.Locked {
			keys[key] = true
		}
	}
	return keys
}

// abandoned are the keys of the writes to other repositories that were tried often
// enough: nobody may ever be let in there again.
func (m *remembered) abandoned() map[string]bool {
	keys := map[string]bool{}
	for key, f := range m.failures {
		switch github.KindOf(f.err) {
		case github.NotFound, github.Forbidden, github.Blocked, github.Denied, github.Locked, github.Unauthorized, github.BadConfig, github.Invalid:
			if f.count >= maxVisits {
				keys[key] = true
			}
		}
	}
	return keys
}

// general says that a failure is one of all writes, and not of this one.
func general(err error) bool {
	switch github.KindOf(err) {
	case github.Unauthorized, github.Blocked, github.RateLimited, github.Reserved, github.Unreachable, github.Refused, github.BadConfig:
		return true
	}
	return false
}

// open finds out how a repository is written to. last is what was used before: it
// serves where the Secret is gone already because all is being deleted.
func (r *Reconciler) open(ctx context.Context, ghr *v1alpha1.GitHubRepository, repo github.Repo, last *access) (*access, error) {
	if last != nil {
		last = &access{client: last.client, repo: repo}
	}
	ref := ghr.Spec.CredentialsSecretRef
	if ref == nil {
		return last, missing(last, "spec.credentialsSecretRef: it is needed to write to GitHub: name a Secret")
	}
	var secret corev1.Secret
	err := r.Get(ctx, client.ObjectKey{Namespace: ghr.Namespace, Name: ref.Name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return last, missing(last, fmt.Sprintf("spec.credentialsSecretRef: there is no Secret %q in this namespace: create it, or correct the name", ref.Name))
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

func missing(last *access, text string) error {
	if last != nil {
		return nil
	}
	return status.NewTerminal("SecretNotFound", errors.New(text))
}

// carryOut writes a batch, or, when search is set, looks for what was written
// before. ghr is not changed.
func (r *Reconciler) carryOut(ctx context.Context, ghr *v1alpha1.GitHubRepository, last *access, search bool, writes []write) outcome {
	a, err := r.visit(ctx, ghr, siteOf(ghr), last)
	if err != nil {
		return outcome{err: err}
	}
	out := outcome{access: a}
	if search {
		found, err := a.find(ctx, prefixOf(ghr.UID), siteOf(ghr))
		return outcome{access: a, found: found, looked: err == nil, err: err}
	}
	type kind struct {
		from    string // as site.from
		comment bool
	}
	refused := map[kind]error{} // a permission is missing
	visited := map[string]*access{"": a}
	for _, w := range writes {
		k := kind{w.from, w.comment != nil}
		if refused[k] != nil {
			out.results = append(out.results, w.failed(refused[k]))
			continue
		}
		if visited[w.from] == nil {
			there, err := r.visit(ctx, ghr, w.site(), a)
			if err != nil {
				refused[kind{w.from, true}], refused[kind{w.from, false}] = err, err
				out.results = append(out.results, w.failed(err))
				continue
			}
			visited[w.from] = there
		}
		res := visited[w.from].write(ctx, ghr.UID, w)
		out.results = append(out.results, res)
		r.metrics.written(res)
		if general(res.err) {
			if w.from == "" { // what is wrong there stops nothing here
				out.err = res.err
			}
			break
		}
		if github.KindOf(res.err) == github.Forbidden {
			refused[k] = res.err
		}
	}
	return out
}

// site of the repository that a write goes to.
func (w *write) site() site {
	if w.comment != nil {
		return siteOfComment(w.comment)
	}
	return siteOfRecord(w.deployment)
}

// failed is the result of a write that changed nothing.
func (w write) failed(err error) result {
	res := result{write: w, err: err}
	if w.deployment != nil {
		res.id = w.deployment.DeploymentID
	} else {
		res.kept = commentState(w.comment)
	}
	return res
}

// prefixOf begins the markers of all Deployments of a repository. Everybody who reads
// them at GitHub reads it, and it does not give away the UID, which is the key of the
// comments.
func prefixOf(uid types.UID) string {
	return fmt.Sprintf("feedback:%x:", sha256.Sum256([]byte("deployments of "+uid)))
}

// find gives records of the Deployments that were made, oldest first.
func (a *access) find(ctx context.Context, prefix string, here site) ([]v1alpha1.FeedbackRecord, error) {
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

// write writes one Deployment or comment for the repository of a UID.
func (a *access) write(ctx context.Context, uid types.UID, w write) result {
	if w.comment != nil {
		kept, err := a.client.EnsureComment(ctx, a.repo, int(w.comment.PullRequest), commentState(w.comment),
			github.Comment{Key: string(uid), Body: w.text})
		return result{write: w, kept: kept, err: err}
	}
	id, err := a.writeDeployment(ctx, prefixOf(uid), w)
	return result{write: w, id: id, err: err}
}

// writeDeployment gives the ID also beside an error; 0: there is none.
func (a *access) writeDeployment(ctx context.Context, prefix string, w write) (int64, error) {
	record := w.deployment
	if w.verdict.state == v1alpha1.DeploymentInactive {
		return a.deactivate(ctx, prefix, w)
	}
	wanted := github.Deployment{
		SHA: record.Ref, Environment: record.Environment, Marker: marker(prefix, record.PullRequest),
		Description: "Heighliner", Transient: record.PullRequest != 0, Production: record.PullRequest == 0,
	}
	status := github.DeploymentStatus{State: github.DeploymentState(w.verdict.state), Description: w.verdict.text, EnvironmentURL: w.verdict.url}
	id := record.DeploymentID
	if id != 0 {
		_, err := a.client.SetDeploymentStatus(ctx, a.repo, id, status)
		gone, err := a.gone(ctx, w, id, err)
		if !gone {
			return id, err
		}
	}
	return a.client.StartDeployment(ctx, a.repo, wanted, status)
}

// gone reports whether a Deployment was deleted, after an error of a write to it. GitHub's
// replicas do not know for some seconds what was just made: it is gone when it was not
// found for a while. Otherwise the error stays.
func (a *access) gone(ctx context.Context, w write, id int64, err error) (bool, error) {
	if github.KindOf(err) != github.NotFound || !w.lost {
		return false, err
	}
	if gone, check := a.client.DeploymentGone(ctx, a.repo, id); check != nil || !gone {
		return false, err
	}
	return true, nil
}

// deactivate ends a Deployment, if there is one: of one that was about to be made
// when the manager stopped, only GitHub knows.
func (a *access) deactivate(ctx context.Context, prefix string, w write) (int64, error) {
	id := w.deployment.DeploymentID
	if id == 0 {
		made, err := a.client.Deployments(ctx, a.repo, prefix, w.deployment.Ref, w.deployment.Environment)
		if err != nil || len(made.Items) == 0 {
			return 0, err
		}
		id = made.Items[len(made.Items)-1].ID
	}
	_, err := a.client.SetDeploymentStatus(ctx, a.repo, id, github.DeploymentStatus{State: github.Inactive, Description: w.verdict.text})
	gone, err := a.gone(ctx, w, id, err)
	if gone {
		return 0, nil // there is nothing to say it of
	}
	return id, err
}

func commentState(c *v1alpha1.CommentRecord) github.CommentState {
	return github.CommentState{ID: c.CommentID, Recreated: c.Deletions > 0, Dismissed: c.Deletions > 1}
}

// deletionsOf counts the deletions that a state tells of.
func deletionsOf(s github.CommentState) int32 {
	switch {
	case s.Dismissed:
		return 2
	case s.Recreated:
		return 1
	}
	return 0
}
