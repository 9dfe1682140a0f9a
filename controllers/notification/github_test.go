package notification

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/internal/view/viewtest"
	"github.com/heighliner/heighliner/test/await"
)

// TestGitHubStatus checks that a release without a commit gets no commit status, and that an event reports the reason. A release with a commit
// gets a commit status at each transition, including the removal of the release. The status of the policy and the events contain no credential.
func TestGitHubStatus(t *testing.T) {
	t.Parallel()
	const token = "github-secret-token"
	gitHub, err := githubtest.New(githubtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(gitHub)
	t.Cleanup(front.Close)
	remote := gitHub.AddRepository("acme/shop")
	gitHub.AddToken(token, githubtest.Access{})
	sha := remote.Commit()

	namespace := env.Namespace(t)
	chat := newServer(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "github"}, StringData: map[string]string{"token": "wrong-" + token}}
	repository := &v1alpha1.GitHubRepository{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}}
	repository.Spec.BaseURL, repository.Spec.Owner, repository.Spec.Repo = front.URL, "acme", "shop"
	repository.Spec.CredentialsSecretRef = &v1alpha1.Reference{Name: "github"}
	story, _ := viewtest.Play("approval", "shop")
	active := at(t, "approval", "1.0.0", v1alpha1.ReleaseActive)
	release := versionOf(t, story, namespace, "1.1.0")
	release.Annotations = map[string]string{v1alpha1.AnnotationCommit: sha}
	state := release.Status
	for _, o := range []client.Object{secret, release} {
		if err := env.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	release.Status = state
	if err := env.Client.Status().Update(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	write(t, namespace, active)
	manage(t, namespace, namespace)
	p := policyOf(t, namespace, chat.URL, func(p *v1alpha1.NotificationPolicy) {
		p.Spec.BoardURL = "https://board.example.com"
		p.Spec.Receivers = append(p.Spec.Receivers, v1alpha1.NotificationReceiver{Name: "github", Type: v1alpha1.ReceiverGitHubStatus, RepositoryRef: &v1alpha1.Reference{Name: "shop"}, Context: "test"})
	})
	events := func() (list eventsv1.EventList) {
		if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		return list
	}
	failing := func(text string) {
		t.Helper()
		await.Nil(t, func(context.Context) error {
			if s := ready(t, p, reasonDeliveryFailing); !strings.Contains(fmt.Sprint(s.Conditions), text) {
				return fmt.Errorf("status %+v", s)
			}
			return nil
		})
	}
	failing(`GitHubRepository "shop" not found`)
	if err := env.Client.Create(t.Context(), repository); err != nil {
		t.Fatal(err)
	}
	// The message about the release without a commit is dropped immediately, and the receiver does not count
	// as failing.
	await.Nil(t, func(context.Context) error {
		for _, e := range events().Items {
			if e.Reason == "NotificationDropped" && strings.Contains(e.Note, "the commit of the release is not known") {
				return nil
			}
		}
		return fmt.Errorf("events %+v", events().Items)
	})
	// The rollout continues while the token is wrong. The token is corrected later.
	write(t, namespace, at(t, "approval", "1.1.0", v1alpha1.ReleasePending))
	await.Until(t, "GitHub to reject the token", func() bool { return gitHub.Count("POST /repos/{owner}/{repo}/statuses/{sha}", 401) > 0 })
	secret.StringData = map[string]string{"token": token}
	if err := env.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	want := func(statuses ...string) {
		t.Helper()
		await.Nil(t, func(context.Context) error {
			var got []string
			for _, s := range remote.CommitStatuses(sha) {
				got = append(got, s.State+" "+s.Context+" "+s.Description)
				if !strings.HasPrefix(s.TargetURL, "https://board.example.com/services/"+namespace+"/shop") {
					t.Errorf("target %q", s.TargetURL)
				}
			}
			if diff := cmp.Diff(statuses, got); diff != "" {
				return fmt.Errorf("statuses (-want +got):\n%s", diff)
			}
			return nil
		})
	}
	began := "pending test/" + namespace + "/shop shop 1.1.0 started, 1.0.0 is active"
	want(began)
	write(t, namespace, story)
	waits := "pending test/" + namespace + "/shop shop 1.1.0 waits for approval at 10% (step 1 of 2)"
	want(began, waits)
	ready(t, p, "Succeeded")

	// The release and its object are removed.
	if err := env.Client.Delete(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	write(t, namespace, active)
	want(began, waits, "error test/"+namespace+"/shop shop 1.1.0 was removed before its rollout ended")
	ready(t, p, "Succeeded")

	text, err := yaml.Marshal([]any{p, events()})
	if err != nil || strings.Contains(string(text), token) {
		t.Errorf("the token is in %s, %v", text, err)
	}
	for _, failure := range gitHub.Failures() {
		t.Errorf("GitHub: %s", failure)
	}
}

// versionOf returns a version's object from a history, in the given namespace.
func versionOf(t *testing.T, story viewtest.Story, namespace, version string) *v1alpha1.VersionedMicroservice {
	t.Helper()
	for i := range story.Input.Releases {
		if r := story.Input.Releases[i].DeepCopy(); r.Spec.SemVer.Version == version {
			r.ResourceVersion, r.UID, r.OwnerReferences, r.Namespace = "", "", nil, namespace
			return r
		}
	}
	t.Fatalf("%s has no object", version)
	return nil
}
