package show

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

var env *apiserver.Env

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m, apiserver.Options{}, &env)) }

// scene is a story in a namespace of the API server.
type scene struct {
	*testing.T
	namespace string
	story     viewtest.Story
}

// stage writes the objects of a story, with their statuses.
func stage(t *testing.T, name string) scene {
	t.Helper()
	story, ok := viewtest.Play(name, "shop")
	if !ok {
		t.Fatalf("there is no story %q", name)
	}
	s := scene{t, env.Namespace(t), story}
	in := s.story.Input
	for i := range in.Microservices {
		s.create(&in.Microservices[i], in.Microservices[i].DeepCopy())
	}
	for i := range in.Releases {
		s.create(&in.Releases[i], in.Releases[i].DeepCopy())
	}
	for i := range in.NetworkPolicies {
		s.create(&in.NetworkPolicies[i], in.NetworkPolicies[i].DeepCopy())
	}
	for i := range in.ImagePolicies {
		s.create(&in.ImagePolicies[i], in.ImagePolicies[i].DeepCopy())
	}
	for i := range in.Repositories {
		s.create(&in.Repositories[i], in.Repositories[i].DeepCopy())
	}
	for i := range in.Freezes {
		s.create(&in.Freezes[i], in.Freezes[i].DeepCopy())
	}
	return s
}

// create creates the object o, and then writes its status. The status argument is a copy of o with this status.
func (s scene) create(o, status client.Object) {
	s.Helper()
	o.SetNamespace(s.namespace)
	o.SetGeneration(0)
	if err := env.Client.Create(s.Context(), o); err != nil {
		s.Fatal(err)
	}
	status.SetNamespace(s.namespace)
	status.SetResourceVersion(o.GetResourceVersion())
	if err := env.Client.Status().Update(s.Context(), status); err != nil {
		s.Fatal(err)
	}
}

// hlnr runs a command in the namespace, at the time of the story.
func (s scene) hlnr(args ...string) (code cli.Code, stdout, stderr string) {
	s.Helper()
	var out, err bytes.Buffer
	f := cli.New("hlnr", "v1", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &err})
	f.Clock = clocktesting.NewFakeClock(s.story.Now)
	code = cli.Run(s.Context(), f, slices.Concat([]string{args[0], "--kubeconfig", env.Kubeconfig(), "-n", s.namespace}, args[1:]), NewCommands()...)
	return code, out.String(), err.String()
}

func TestCommands(t *testing.T) {
	t.Parallel()
	approval, rolledBack, previews := stage(t, "approval"), stage(t, "rolled back"), stage(t, "previews")
	frozen, starts := stage(t, "frozen"), stage(t, "frozen start")
	for name, test := range map[string]struct {
		scene  scene
		args   []string
		code   cli.Code
		stdout string // expected part of the output
		stderr string // expected part of the messages
	}{
		"status":                            {approval, []string{"status"}, cli.ExitYes, "waits for approval since 10:00   hlnr --kubeconfig " + env.Kubeconfig() + " continue -n " + approval.namespace + " shop 1.1.0", ""},
		"status of one":                     {approval, []string{"status", "shop"}, cli.ExitYes, "1 service: 1 waits for you\n", ""},
		"status of an unknown service":      {approval, []string{"status", "shpo"}, cli.ExitUsage, "", `did you mean "shop"?`},
		"status by label":                   {approval, []string{"status", "-l", "team=none"}, cli.ExitYes, "no services in namespace " + approval.namespace + " (use -A for all namespaces)\n", ""},
		"status by an invalid label":        {approval, []string{"status", "-l", "a in"}, cli.ExitUsage, "", "--selector"},
		"status as names":                   {approval, []string{"status", "-o", "name"}, cli.ExitYes, "microservice.hlnr.io/shop\n", ""},
		"status, only waiting":              {approval, []string{"status", "--only", "waiting"}, cli.ExitYes, "1 service: 1 waits for you\n", ""},
		"status, only failed":               {approval, []string{"status", "--only", "failed,moving"}, cli.ExitYes, "none of 1 service: 1 waits for you\n", ""},
		"status, unknown state":             {approval, []string{"status", "--only", "broken"}, cli.ExitUsage, "", `--only: "broken" is not a state: use one of waiting, failed, moving, stable`},
		"status in an unknown format":       {approval, []string{"status", "-o", "xml"}, cli.ExitUsage, "", `unknown format "xml"`},
		"tree":                              {approval, []string{"tree", "shop"}, cli.ExitYes, "step 1 of 2, waits for approval since 10:00", ""},
		"tree of all":                       {approval, []string{"tree"}, cli.ExitYes, "step 1 of 2, waits for approval since 10:00", ""},
		"tree of all as names":              {approval, []string{"tree", "-o", "name"}, cli.ExitYes, "microservice.hlnr.io/shop\n", ""},
		"tree of all namespaces":            {approval, []string{"tree", "-A"}, cli.ExitYes, "\n" + rolledBack.namespace + "/shop · ", ""},
		"watch of all":                      {approval, []string{"tree", "-w"}, cli.ExitUsage, "", "--watch follows one Microservice"},
		"tree of an unknown service":        {approval, []string{"tree", "other"}, cli.ExitUsage, "", "available: shop"},
		"status of a freeze":                {frozen, []string{"status"}, cli.ExitYes, `namespace ` + frozen.namespace + `: frozen until Mon 08:00 by ana: "trade fair" (Freeze fair); 1 service waits for it to end`, ""},
		"tree of a freeze":                  {frozen, []string{"tree", "shop"}, cli.ExitYes, `waits, frozen until 2030-02-04T08:00:00Z by Freeze "fair" ("trade fair")`, ""},
		"why of a freeze":                   {frozen, []string{"why", "shop", "1.1.0"}, cli.ExitYes, "Freeze " + frozen.namespace + "/fair", ""},
		"why of a frozen start":             {starts, []string{"why", "shop", "1.1.0"}, cli.ExitNo, `1.1.0 is not live: it is frozen until 2030-02-04T08:00:00Z by Freeze "fair" ("trade fair").`, ""},
		"history":                           {rolledBack, []string{"history", "shop"}, cli.ExitYes, "rolled back 8m ago: latency-p99 612 ms > 500 ms at 10%", ""},
		"status of previews":                {previews, []string{"status"}, cli.ExitYes, "hlnr --kubeconfig " + env.Kubeconfig() + " previews -n " + previews.namespace + " shop", ""},
		"why of an unknown service":         {approval, []string{"why", "shpo"}, cli.ExitUsage, "", `there is no host, service or version with the name "shpo" in namespace ` + approval.namespace + `; did you mean "shop"?`},
		"previews":                          {previews, []string{"previews"}, cli.ExitYes, "https://cart-17.shop.example.com", ""},
		"no previews":                       {approval, []string{"previews"}, cli.ExitYes, "no previews in namespace " + approval.namespace + " (use -A for all namespaces)\n", ""},
		"events":                            {approval, []string{"events", "shop"}, cli.ExitYes, "no events of shop; the API server keeps events for an hour by default", ""},
		"events of the last ten minutes":    {approval, []string{"events", "shop", "--since", "10m"}, cli.ExitYes, "no events of shop in the last 10m; the API server keeps", ""},
		"events, negative time":             {approval, []string{"events", "--since", "-1s"}, cli.ExitUsage, "", "--since: invalid value -1s: must not be negative"},
		"why of a URL":                      {approval, []string{"why", "https://shop.example.com/cart"}, cli.ExitYes, "shop.example.com/cart is served by 1.1.0 (10%) and 1.0.0 (90%).", ""},
		"why of a host":                     {approval, []string{"why", "shop.example.com"}, cli.ExitYes, "NetworkPolicy " + approval.namespace + "/shop", ""},
		"why of a group's host":             {approval, []string{"why", "1-x.shop.example.net"}, cli.ExitUsage, "", "host"},
		"why of a service":                  {approval, []string{"why", "shop"}, cli.ExitYes, "1.1.0 is live with a share of 10% in group 1.x", ""},
		"why of an unknown host":            {approval, []string{"why", "shop.example.org"}, cli.ExitUsage, "", "did you mean"},
		"why of an invalid URL":             {approval, []string{"why", "https://"}, cli.ExitUsage, "", "is not a URL"},
		"why of a failure":                  {rolledBack, []string{"why", "shop", "1.1.0"}, cli.ExitNo, "1.1.0 is not live: it was rolled back 8m ago", ""},
		"why of a version alone":            {rolledBack, []string{"why", "1.1.0"}, cli.ExitNo, "metric", ""},
		"why of an unknown version alone":   {rolledBack, []string{"why", "7.0.0"}, cli.ExitNo, "the ImagePolicy does not offer it", ""},
		"why of an unknown version":         {rolledBack, []string{"why", "shop", "7.0.0"}, cli.ExitNo, "the ImagePolicy does not offer it", ""},
		"why of a partial version":          {rolledBack, []string{"why", "shop", "1.1"}, cli.ExitUsage, "", `there is no version of shop with the name "1.1"; did you mean "1.1.0"?`},
		"why of a partial tag":              {rolledBack, []string{"why", "shop", "v1"}, cli.ExitUsage, "", `did you mean "1.1.0" or "1.0.0"?`},
		"why of a partial version alone":    {rolledBack, []string{"why", "1.1"}, cli.ExitUsage, "", `there is no version of shop with the name "1.1"; did you mean "1.1.0"?`},
		"why of an unknown partial version": {rolledBack, []string{"why", "shop", "7.0"}, cli.ExitNo, "the ImagePolicy does not offer it", ""},
		"why with a port":                   {approval, []string{"why", "shop.example.com:8443/cart"}, cli.ExitYes, "shop.example.com/cart is served by 1.1.0 (10%)", ""},
		"status, unknown namespace":         {approval, []string{"status", "-n", approval.namespace + "x"}, cli.ExitUsage, "", `there is no namespace with the name "` + approval.namespace + `x"; did you mean "` + approval.namespace + `"`},
		"events, unknown namespace":         {approval, []string{"events", "-n", "nosuchns"}, cli.ExitUsage, "", `there is no namespace with the name "nosuchns"`},
		"why of a pull request":             {previews, []string{"why", "pr/17"}, cli.ExitYes, "pull request 17 is served at https://cart-17.shop.example.com", ""},
		"why of a fork":                     {previews, []string{"why", "shop", "pr/19"}, cli.ExitWaits, "waits for approval (fork)", ""},
		"why of an unknown pull request":    {previews, []string{"why", "pr/99"}, cli.ExitUsage, "", "preview of a pull request"},
		"why of an invalid number":          {previews, []string{"why", "pr/x"}, cli.ExitUsage, "", "write pr/NUMBER"},
		"why of an unknown pod":             {approval, []string{"why", "pod/x"}, cli.ExitUsage, "", "there are no others"},
		"logs without pods":                 {approval, []string{"logs", "shop"}, cli.ExitNo, "", "release 1.1.0 (shop-1-1-0-0a1b2c3d) has no pods"},
		"logs of an unknown version":        {approval, []string{"logs", "shop", "7.0.0"}, cli.ExitUsage, "", `did you mean "1.0.0"?`},
		"without permissions":               {approval, []string{"status", "--as", "eve"}, cli.ExitFailed, "", "you (eve) cannot list microservices.hlnr.io in namespace " + approval.namespace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := test.scene
			s.T = t
			code, stdout, stderr := s.hlnr(test.args...)
			if code != test.code || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) || test.stderr == "" && stderr != "" {
				t.Errorf("hlnr %s: exit code %d, want %d\noutput:\n%s\nmessages:\n%s", strings.Join(test.args, " "), code, test.code, stdout, stderr)
			}
		})
	}
}

// TestWhyOfAHostElsewhere checks that hlnr why searches for a host in all namespaces if the namespace of the command does not have the
// host. If the user is not allowed to list NetworkPolicies in all namespaces, the message reports that only one namespace was
// searched.
func TestWhyOfAHostElsewhere(t *testing.T) {
	t.Parallel()
	s := stage(t, "approval")
	var policy v1alpha1.NetworkPolicy
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "shop"}, &policy); err != nil {
		t.Fatal(err)
	}
	host := "1-x." + s.namespace + ".localhost"
	for i := range policy.Status.Domains {
		if d := &policy.Status.Domains[i]; d.Domain == "shop.example.com" {
			d.Domain = host
		}
	}
	if err := env.Client.Status().Update(t.Context(), &policy); err != nil {
		t.Fatal(err)
	}
	away := scene{t, env.Namespace(t), s.story}
	for _, q := range []string{host, "http://" + host + "/cart", host + ":8080/cart"} {
		code, stdout, stderr := away.hlnr("why", q)
		want := "hlnr: namespace " + away.namespace + " has no host " + host + ": this answer is for namespace " + s.namespace + "\n"
		if code != cli.ExitYes || !strings.Contains(stdout, " is served by 1.1.0 (10%) and 1.0.0 (90%).") || stderr != want {
			t.Errorf("why %s: exit code %d\n%s%s", q, code, stdout, stderr)
		}
	}
	code, _, stderr := away.hlnr("why", "x"+host)
	if want := `there is no host with the name "x` + host + `" in any namespace; did you mean "` + host + `"`; code != cli.ExitUsage || !strings.Contains(stderr, want) {
		t.Errorf("unknown host: exit code %d, want %q\n%s", code, want, stderr)
	}
	user := away.reader("own-" + away.namespace)
	code, _, stderr = away.hlnr("why", host, "--as", user)
	if want := "only namespace " + away.namespace + " was searched: you (" + user + ") cannot list networkpolicies.hlnr.io in all namespaces"; code == cli.ExitYes || !strings.Contains(stderr, want) {
		t.Errorf("without permissions elsewhere: exit code %d, want %q\n%s", code, want, stderr)
	}
}

// reader gives a user permission to list the objects of the namespace, and returns the name of the user.
func (s scene) reader(name string) string {
	s.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"hlnr.io", ""}, Resources: []string{"*"}, Verbs: []string{"list"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}
	for _, o := range []client.Object{role, binding} {
		if err := env.Client.Create(s.Context(), o); err != nil {
			s.Fatal(err)
		}
	}
	await.Nil(s.T, func(ctx context.Context) error { // The authorizer applies the roles with a delay.
		return env.As(s.T, name).List(ctx, &v1alpha1.MicroserviceList{}, client.InNamespace(s.namespace))
	})
	return name
}

// TestServiceElsewhere checks that the error for an unknown service lists the other namespaces that have a service with this
// name.
func TestServiceElsewhere(t *testing.T) {
	t.Parallel()
	s := stage(t, "active")
	away := scene{t, env.Namespace(t), s.story}
	for _, args := range [][]string{{"status", "shop"}, {"tree", "shop"}, {"why", "shop"}, {"why", "shop", "1.0.0"}, {"history", "shop"}, {"events", "shop"}, {"logs", "shop"}, {"previews", "shop"}} {
		code, _, stderr := away.hlnr(args...)
		if code != cli.ExitUsage || !strings.Contains(stderr, `with the name "shop" in namespace `+away.namespace+"; there ") || !strings.Contains(stderr, " shop in ") || !strings.Contains(stderr, "-n") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
}

// TestWhyOfAVersionThatNoServiceHas checks that hlnr why never treats a version as a host. If the namespace has no service, or several
// services, the error contains the argument to add.
func TestWhyOfAVersionThatNoServiceHas(t *testing.T) {
	t.Parallel()
	var two view.Input
	for _, name := range []string{"shop", "cart"} {
		ms := v1alpha1.Microservice{}
		ms.Namespace, ms.Name = "prod", name
		two.Microservices = append(two.Microservices, ms)
	}
	for name, test := range map[string]struct {
		in        view.Input
		namespace string
		want      string
	}{
		"no service":   {view.Input{}, "prod", "there is no Microservice in namespace prod, and therefore no version v1.2.0: name another namespace with -n, or use -A for all namespaces"},
		"two services": {two, "", "in the cluster, no Microservice has version v1.2.0, and none of the Microservices' ImagePolicies offers it: ask about one Microservice with hlnr why -n NAMESPACE MICROSERVICE v1.2.0"},
	} {
		if _, err := ask(test.in, test.namespace, []string{"v1.2.0"}, time.Now()); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOutputsAgree checks that the text and the JSON of a command agree.
func TestOutputsAgree(t *testing.T) {
	t.Parallel()
	s := stage(t, "approval")
	_, table, _ := s.hlnr("status")
	_, raw, _ := s.hlnr("status", "-o", "json")
	var b view.Board
	if err := json.Unmarshal([]byte(raw), &b); err != nil {
		t.Fatal(err)
	}
	if b.APIVersion != view.APIVersion || b.Kind != view.KindBoard || len(b.Services) != 1 || !strings.Contains(table, b.Services[0].State.Sentence) {
		t.Errorf("%s\n%s", table, raw)
	}
	_, yaml, _ := s.hlnr("tree", "shop", "-o", "yaml")
	if !strings.HasPrefix(yaml, "apiVersion: view.hlnr.io/v1\n") || !strings.Contains(yaml, "kind: Service\n") {
		t.Errorf("%s", yaml)
	}
}

// TestPartOfTheRights checks that objects that a user is not allowed to read are reported and omitted.
func TestPartOfTheRights(t *testing.T) {
	t.Parallel()
	s := stage(t, "approval")
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "some"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"hlnr.io"}, Resources: []string{"microservices", "versionedmicroservices"}, Verbs: []string{"list"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "some"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "some"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "some-" + s.namespace}},
	}
	for _, o := range []client.Object{role, binding} {
		if err := env.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	await.Nil(t, func(ctx context.Context) error { // The authorizer applies the roles with a delay.
		return env.As(t, "some-"+s.namespace).List(ctx, &v1alpha1.VersionedMicroserviceList{}, client.InNamespace(s.namespace))
	})
	code, stdout, stderr := s.hlnr("tree", "shop", "--as", "some-"+s.namespace)
	if code != cli.ExitYes || !strings.Contains(stdout, "1.1.0") || strings.Contains(stdout, "example.com") {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	for _, resource := range []string{"networkpolicies.hlnr.io", "imagepolicies.hlnr.io", "githubrepositories.hlnr.io", "freezes.hlnr.io", "pods"} {
		if strings.Count(stderr, "cannot list "+resource) != 1 {
			t.Errorf("%s is not reported exactly once:\n%s", resource, stderr)
		}
	}
	for _, args := range [][]string{{"why", "https://shop.example.com/"}, {"why", "pr/19"}, {"logs", "shop", "1.1.0"}} {
		code, stdout, messages := s.hlnr(append(args, "--as", "some-"+s.namespace)...)
		if code != cli.ExitFailed || !strings.Contains(messages, "some objects could not be read") {
			t.Errorf("%q depends on objects that cannot be read: exit code %d\n%s\n%s", args, code, stdout, messages)
		}
	}
	if strings.Contains(stderr, "clusterfreezes") || strings.Contains(stderr, "namespaces") {
		t.Errorf("permissions in a namespace that does not exist are reported:\n%s", stderr)
	}
}

// TestFollowers checks that hlnr tree shows the CronJobs that follow a service to users who may read them, and omits them for other users.
func TestFollowers(t *testing.T) {
	t.Parallel()
	s := stage(t, "approval")
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "shop", Image: "shop"}}}
	job := func(name, follows string) *batchv1.CronJob {
		return &batchv1.CronJob{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.namespace, Name: name, Labels: map[string]string{v1alpha1.LabelFollow: follows},
				Annotations: map[string]string{v1alpha1.AnnotationFollowMessage: "waits for the manager"},
			},
			Spec: batchv1.CronJobSpec{Schedule: "0 3 * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}},
		}
	}
	role := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "view"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "view-" + s.namespace}},
	}
	rules := &rbacv1.Role{ObjectMeta: role.ObjectMeta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"hlnr.io", ""}, Resources: []string{"*"}, Verbs: []string{"list"}}}}
	for _, o := range []client.Object{job("report", "shop"), job("backup", "cart"), rules, role} {
		if err := env.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"tree", "shop"}, {"tree"}, {"tree", "shop", "-o", "json"}} {
		if code, stdout, stderr := s.hlnr(args...); code != cli.ExitYes || !strings.Contains(stdout, "report") || !strings.Contains(stdout, "waits for the manager") || strings.Contains(stdout, "backup") {
			t.Errorf("%q: exit code %d\n%s\n%s", args, code, stdout, stderr)
		}
	}
	await.Nil(t, func(ctx context.Context) error { // The authorizer applies the role with a delay.
		return env.As(t, "view-"+s.namespace).List(ctx, &v1alpha1.VersionedMicroserviceList{}, client.InNamespace(s.namespace))
	})
	if code, stdout, stderr := s.hlnr("tree", "shop", "--as", "view-"+s.namespace); code != cli.ExitYes || strings.Contains(stdout+stderr, "report") || strings.Contains(strings.ToLower(stderr), "cronjobs") {
		t.Errorf("without the permission to read CronJobs: exit code %d\n%s\n%s", code, stdout, stderr)
	}
}

// TestDefaultContainer checks that hlnr logs prints the logs of the container that is the default for kubectl.
func TestDefaultContainer(t *testing.T) {
	t.Parallel()
	pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "proxy"}, {Name: "shop"}}}}
	for annotation, want := range map[string]string{"": "proxy", "shop": "shop", "gone": "proxy"} {
		pod.Annotations = map[string]string{annotationDefaultContainer: annotation}
		if got := defaultContainer(pod); got != want {
			t.Errorf("annotation %q: container %q, want %q", annotation, got, want)
		}
	}
}

// TestLogsWithoutReleases checks that hlnr logs reports that a service has no release, and that the error for an unknown version
// contains the versions of the service.
func TestLogsWithoutReleases(t *testing.T) {
	t.Parallel()
	var exit *cli.Exit
	if _, err := releaseFor(view.Service{Name: "shop"}, ""); !errors.As(err, &exit) || exit.Code != cli.ExitNo || err.Error() != "shop has no release" {
		t.Errorf("error %v", err)
	}
	one := view.Service{Name: "shop", Groups: []view.Group{{Releases: []view.Release{{Name: "shop-1", Version: "1.0.0"}}}}}
	if _, err := releaseFor(one, "2.0.0"); !errors.As(err, &exit) || exit.Code != cli.ExitUsage || !strings.Contains(err.Error(), "1.0.0") {
		t.Errorf("error %v", err)
	}
}

// TestVersionsOfLogs checks that hlnr logs accepts a version as written in its tag, and the beginning of a commit.
func TestVersionsOfLogs(t *testing.T) {
	t.Parallel()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	s := view.Service{
		Name: "shop", Groups: []view.Group{{Releases: []view.Release{{Name: "shop-1", Version: "1.0.0"}}}},
		Previews: []view.Group{{Releases: []view.Release{{Name: "shop-pr", Version: commit}}}},
	}
	for wanted, want := range map[string]string{"1.0.0": "shop-1", "v1.0.0": "shop-1", "shop-1": "shop-1", commit: "shop-pr", commit[:7]: "shop-pr", commit[:6]: "", "1.0": ""} {
		if got, _ := releaseFor(s, wanted); got.Name != want {
			t.Errorf("%q selects %q, want %q", wanted, got.Name, want)
		}
	}
}

// TestLogsOfSeveralPods checks that hlnr logs prints all logs that can be read, even if the log of one pod cannot be read.
func TestLogsOfSeveralPods(t *testing.T) {
	t.Parallel()
	var pods []corev1.Pod
	for _, name := range []string{"c", "a", "b"} {
		pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "shop"}}}})
	}
	for _, follow := range []bool{false, true} {
		var out strings.Builder
		o := logOptions{follow: follow, previous: true, tail: -1}
		err := o.copyLogs(&out, pods, func(pod string, options *corev1.PodLogOptions) (io.ReadCloser, error) {
			if pod == "a" || !options.Previous {
				return nil, errors.New("previous terminated container not found")
			}
			return io.NopCloser(strings.NewReader("panic in " + pod)), nil
		})
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		slices.Sort(lines)
		if want := []string{"b  panic in b", "c  panic in c"}; !slices.Equal(lines, want) {
			t.Errorf("follow %t: %q, want %q", follow, lines, want)
		}
		if err == nil || err.Error() != "read the log of pod a: previous terminated container not found" {
			t.Errorf("follow %t: error %v", follow, err)
		}
	}
}

// TestAmbiguousServices checks that a name that exists in two namespaces requires -n.
func TestAmbiguousServices(t *testing.T) {
	t.Parallel()
	a, _ := stage(t, "active"), stage(t, "active")
	code, _, stderr := a.hlnr("why", "-A", "shop")
	if code != cli.ExitUsage || !strings.Contains(stderr, "is ambiguous") || !strings.Contains(stderr, a.namespace) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestClosedPipe checks that a closed output ends the command without a message.
func TestClosedPipe(t *testing.T) {
	t.Parallel()
	s := stage(t, "active")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	var messages bytes.Buffer
	f := cli.New("hlnr", "v1", genericiooptions.IOStreams{In: strings.NewReader(""), Out: w, ErrOut: &messages})
	code := cli.Run(t.Context(), f, []string{"status", "--kubeconfig", env.Kubeconfig(), "-n", s.namespace}, NewCommands()...)
	if code != cli.ExitFailed || messages.String() != "" {
		t.Errorf("exit code %d, message %q", code, messages.String())
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	s := stage(t, "active")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.Canceled)
	var out, messages bytes.Buffer
	f := cli.New("hlnr", "v1", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &messages})
	code := cli.Run(ctx, f, []string{"status", "--kubeconfig", env.Kubeconfig(), "-n", s.namespace}, NewCommands()...)
	if code != cli.ExitInterrupted || out.String() != "" {
		t.Errorf("exit code %d, output %q, message %q", code, out.String(), messages.String())
	}
}

func TestLocale(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env  map[string]string
		want bool
	}{
		"none":                {nil, false},
		"POSIX":               {map[string]string{"LANG": "C"}, false},
		"LANG":                {map[string]string{"LANG": "de_CH.UTF-8"}, true},
		"in lower case":       {map[string]string{"LC_CTYPE": "C.utf8"}, true},
		"LC_ALL before LANG":  {map[string]string{"LC_ALL": "C", "LANG": "de_CH.UTF-8"}, false},
		"LC_CTYPE, then LANG": {map[string]string{"LC_CTYPE": "de_CH.ISO-8859-1", "LANG": "de_CH.UTF-8"}, false},
	} {
		if got := isUTF8(func(key string) string { return test.env[key] }); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestExplainKeepsOtherErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	if got := explain(cause); got != cause {
		t.Error(got)
	}
}

// TestEventsWithoutCRDs checks that hlnr events reports missing CRDs instead of an empty list.
func TestEventsWithoutCRDs(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/events") {
			fmt.Fprint(w, `{"kind":"EventList","apiVersion":"events.k8s.io/v1","metadata":{},"items":[]}`)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "404 page not found\n")
	}))
	t.Cleanup(server.Close)
	config := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", server.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, problems bytes.Buffer
	f := cli.New("hlnr", "v1", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &problems})
	code := cli.Run(t.Context(), f, []string{"events", "--kubeconfig", config, "-n", "shop"}, NewCommands()...)
	if code != cli.ExitFailed || out.Len() > 0 || !strings.Contains(problems.String(), "the CRDs of Heighliner are not installed") {
		t.Errorf("exit code %d, output %q, error %q", code, &out, &problems)
	}
}

// TestEventsSince checks that hlnr events with --since omits older events.
func TestEventsSince(t *testing.T) {
	t.Parallel()
	s := stage(t, "active")
	for name, age := range map[string]time.Duration{"old": time.Hour, "new": time.Minute} {
		e := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, EventTime: metav1.NewMicroTime(s.story.Now.Add(-age)), Type: "Normal", Reason: name, Action: "Test", ReportingController: "hlnr.io/test", ReportingInstance: "test", Note: "note of " + name}
		e.Regarding = corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Microservice", Namespace: s.namespace, Name: "shop"}
		if err := env.Client.Create(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{"": "60m  old  Microservice/shop  note of old\n60s  new  Microservice/shop  note of new\n", "--since=10m": "60s  new  Microservice/shop  note of new\n"} {
		if code, stdout, stderr := s.hlnr(append([]string{"events"}, strings.Fields(args)...)...); code != cli.ExitYes || stdout != want {
			t.Errorf("%q: exit code %d, %q, want %q\n%s", args, code, stdout, want, stderr)
		}
	}
}

// TestStatusOfNotifications checks that the status shows undelivered messages.
func TestStatusOfNotifications(t *testing.T) {
	t.Parallel()
	s := stage(t, "active")
	policy := &v1alpha1.NotificationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "chat"}}
	policy.Spec.Receivers = []v1alpha1.NotificationReceiver{{Name: "team", Type: v1alpha1.ReceiverWebhook, URL: "https://chat.example.com/hook"}}
	with := policy.DeepCopy()
	with.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "DeliveryFailing", Message: `receiver "team": 401 Unauthorized; delivery is retried`, LastTransitionTime: metav1.NewTime(s.story.Now)}}
	s.create(policy, with)
	code, text, messages := s.hlnr("status")
	if want := "NotificationPolicy chat: receiver \"team\": 401 Unauthorized; delivery is retried\n"; code != cli.ExitYes || !strings.Contains(text, want) || messages != "" {
		t.Errorf("exit code %d, no %q in:\n%s%s", code, want, text, messages)
	}
}

// TestWhyOfAServiceThatIsDown checks that the answer for a service whose active release has no ready pod is about this release, and not about
// a version that failed or was aborted by a user last week.
func TestWhyOfAServiceThatIsDown(t *testing.T) {
	t.Parallel()
	for _, story := range []string{"crashes", "aborted"} {
		s, _ := viewtest.Play(story, "shop")
		in := s.Input
		in.Microservices = []v1alpha1.Microservice{*in.Microservices[0].DeepCopy()}
		in.Releases = slices.Clone(in.Releases)
		for i := range in.Microservices[0].Status.ReleaseGroups[0].Releases {
			row := &in.Microservices[0].Status.ReleaseGroups[0].Releases[i]
			if row.Status != v1alpha1.ReleaseActive {
				continue
			}
			row.Available = false
			for j := range in.Releases {
				if o := &in.Releases[j]; o.Name == row.VersionedMicroservice {
					o.Status.Available, o.Status.Failure, o.Status.Message = 0, "CrashLoopBackOff", "exit 1: out of licenses"
				}
			}
		}
		a, err := ask(in, "shop", []string{"shop"}, s.Now.Add(8*24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(a.Summary, "out of licenses") {
			t.Errorf("%s: the active 1.0.0 has no ready pod; hlnr why shop: %q, do %q", story, a.Summary, a.Do)
		}
	}
}

// TestWhyOfAServiceWithAnotherConfiguration checks that the answer about a service is about the release with the new configuration that is in progress
// or has failed, although the active release has the same version.
func TestWhyOfAServiceWithAnotherConfiguration(t *testing.T) {
	t.Parallel()
	for story, c := range map[string]struct {
		code    cli.Code
		summary string
	}{
		"config canary": {cli.ExitYes, "shop-1-0-0-c2 is live with a share of 10% in group 1.x: waits for approval since 10:00."},
		"config failed": {cli.ExitNo, "shop-1-0-0-c2 is not live: it failed 110m ago: container shop: exit 1: out of licenses."},
	} {
		code, stdout, stderr := stage(t, story).hlnr("why", "shop")
		if code != c.code || !strings.HasPrefix(stdout, c.summary) {
			t.Errorf("%s: exit code %d:\n%s%s", story, code, stdout, stderr)
		}
	}
}
