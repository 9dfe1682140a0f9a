package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
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

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/manifest"
	"github.com/heighliner/heighliner/internal/shard"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/test/apiserver"
)

var env *apiserver.Env

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m, apiserver.Options{Policies: true, GatewayAPI: true}, &env))
}

func call(t *testing.T, args ...string) (code cli.Code, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	f := cli.New("hlnr", "test", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &err})
	code = cli.Run(t.Context(), f, slices.Concat([]string{"doctor"}, args, []string{"--kubeconfig", env.Kubeconfig()}), NewCommand)
	return code, out.String(), err.String()
}

// findings returns the exit code, and the findings with their levels and checks.
func findings(t *testing.T, namespace string, args ...string) (code cli.Code, all []string) {
	t.Helper()
	code, stdout, stderr := call(t, slices.Concat([]string{"-n", namespace, "-o", "json"}, args)...)
	var r Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("exit code %d, %v, error %q", code, err, stderr)
	}
	for _, f := range r.Findings {
		all = append(all, string(f.Level)+" "+f.Check+": "+f.Text)
	}
	return code, all
}

func has(all []string, text string) bool {
	return slices.ContainsFunc(all, func(f string) bool { return strings.Contains(f, text) })
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	create := func(o client.Object) {
		t.Helper()
		if err := env.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	code, all := findings(t, namespace, "--manager-namespace", namespace)
	for _, want := range []string{
		"OK Kubernetes: v1.", "OK Clock: ", "OK CRDs: 10 match hlnr test", "OK Permissions: you may see releases, pin and pause, decide, scan",
		"OK Admission: clusterfreeze-selectors.hlnr.io is enforced", "OK Admission: decisions.hlnr.io is enforced", "OK Admission: domains.hlnr.io is enforced", "OK Admission: freeze-selectors.hlnr.io is enforced", "OK Admission: freezes.hlnr.io is enforced", "OK Admission: pins.hlnr.io is enforced", "OK Gateway API: Gateway, HTTPRoute",
		"Problem Manager: there is no Deployment heighliner in namespace " + namespace,
	} {
		if !has(all, want) {
			t.Errorf("no finding %q in:\n%s", want, strings.Join(all, "\n"))
		}
	}
	if code != cli.ExitNo {
		t.Errorf("exit code %d", code)
	}

	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "manager", Image: "r.example/heighliner", Args: []string{"--prometheus-address=http://robot:hunter2@prometheus.example:9090"}},
	}}}
	d := &doctor{client: env.Client, manager: namespace}
	if got := d.installAgain(t.Context()); !strings.Contains(got, "kubectl apply -k") {
		t.Errorf("without Helm, the fix for an incomplete installation is %q", got)
	}
	manager := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "heighliner"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: pod}}
	manager.Labels, manager.Annotations = map[string]string{"app.kubernetes.io/managed-by": "Helm"}, map[string]string{"meta.helm.sh/release-name": "ship"}
	create(manager)
	if got := d.installAgain(t.Context()); !strings.Contains(got, "the Helm release ship") || !strings.Contains(got, "helm upgrade") {
		t.Errorf("with Helm, the fix for an incomplete installation is %q", got)
	}
	for name, until := range map[string]time.Duration{"fair": time.Hour, "over": -time.Hour} {
		f := &v1alpha1.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{v1alpha1.AnnotationDecidedBy: "admin"}}}
		f.Spec.Reason, f.Spec.Until = "trade "+name, &metav1.Time{Time: time.Now().Add(until)}
		if err := env.As(t, "admin", "system:masters").Create(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	policy := &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}}
	policy.Spec.Image = "r.example/shop"
	policy.Spec.ImagePullSecrets = []v1alpha1.Reference{{Name: "missing"}, {Name: "there"}}
	create(policy)
	create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "there"}})
	policy.Status.ObservedGeneration = policy.Generation
	policy.Status.Conditions = []metav1.Condition{{Type: "Stalled", Status: "True", Reason: "InvalidSpec", Message: "spec.versioning.range is not a range", LastTransitionTime: metav1.Now()}}
	if err := env.Client.Status().Update(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	_, all = findings(t, namespace, "--manager-namespace", namespace)
	for _, want := range []string{
		"Problem Manager: 0 of 1 ready", "OK Prometheus: the manager queries http://(removed)@prometheus.example:9090",
		"Problem ImagePolicy: " + namespace + "/shop: InvalidSpec: spec.versioning.range is not a range",
		"Warning Freeze: " + namespace + "/fair: applies until ", "; no new release starts in 0 Microservices: trade fair",
		"Problem Credentials: Secret " + namespace + "/missing, referenced by ImagePolicy shop, does not exist", "OK Credentials: 1 Secret that objects refer to is present",
	} {
		if !has(all, want) {
			t.Errorf("no finding %q in:\n%s", want, strings.Join(all, "\n"))
		}
	}
	manager.Spec.Template.Spec.Containers[0].Args = append(manager.Spec.Template.Spec.Containers[0].Args, "--namespace=shop,bank", "--namespace=infra")
	if err := env.Client.Update(t.Context(), manager); err != nil {
		t.Fatal(err)
	}
	_, all = findings(t, namespace, "--manager-namespace", namespace)
	if !has(all, "Problem Manager: the manager does not watch namespace "+namespace+", where 3 objects of hlnr.io have no effect") || has(all, "ImagePolicy: ") {
		t.Errorf("findings for a namespace that is not watched:\n%s", strings.Join(all, "\n"))
	}
	manager.Spec.Template.Spec.Containers[0].Args = append(manager.Spec.Template.Spec.Containers[0].Args, "--namespace="+namespace)
	if err := env.Client.Update(t.Context(), manager); err != nil {
		t.Fatal(err)
	}
	if _, all = findings(t, namespace, "--manager-namespace", namespace); !has(all, "Problem Manager: the manager is configured to watch namespace "+namespace+", but has no permissions in it") {
		t.Errorf("findings for a namespace in which the manager lacks permissions:\n%s", strings.Join(all, "\n"))
	}
	code, all = findings(t, namespace, "--as", "bob")
	if code != cli.ExitFailed {
		t.Errorf("without permissions, exit code %d", code)
	}
	_, stdout, stderr := call(t, "-n", namespace, "--as", "bob")
	unknown := len(slices.DeleteFunc(slices.Clone(all), func(f string) bool { return !strings.HasPrefix(f, "Unknown ") }))
	if want := fmt.Sprintf("\n0 problems, 0 warnings; %d checks were not possible\n", unknown); unknown < 5 || !strings.HasSuffix(stdout, want) || !strings.Contains(stderr, "no problem was found, but some checks need permissions that you do not have") {
		t.Errorf("without permissions, the output does not end with %q:\n%s%s", want, stdout, stderr)
	}
	for _, want := range []string{"Unknown CRDs: you are not allowed to read ", ", microservices.hlnr.io, ", "Unknown Permissions: you cannot list microservices.hlnr.io in namespace " + namespace, "Unknown ImagePolicy: you are not allowed to read objects"} {
		if !has(all, want) {
			t.Errorf("without permissions, no finding %q in:\n%s", want, strings.Join(all, "\n"))
		}
	}
}

// planted contains the secrets that plant adds to user objects. A report must contain none of them.
var planted = []string{
	"hunter2-env", "hunter2-arg", "hunter2-command", "hunter2-header", "hunter2-annotation", "hunter2-url", "hunter2-query", "hunter2-message", "hunter2-body", "hunter2-applied",
	"ghp_0123456789abcdefghijABCDEFGHIJ012345", "AKIAIOSFODNN7EXAMPLE", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "MIIEpAIBAAKCAQEA",
}

func plant() []client.Object {
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop", Annotations: map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": `{"spec":"hunter2-applied"}`, "example.com/note": "hunter2-annotation",
	}}}
	ms.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "shop", Image: "r.example/shop:1.0.0", Command: []string{"serve", "hunter2-command"}, Args: []string{"--db", "hunter2-arg", "ghp_0123456789abcdefghijABCDEFGHIJ012345"},
		Env:           []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "debug"}, {Name: "DB", Value: "hunter2-env"}, {Name: "FROM", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "database"}, Key: "password"}}}},
		LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/live?token=hunter2-query", HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: "Bearer hunter2-header"}}}}},
	}}
	ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}}, Hooks: []v1alpha1.Hook{{Name: "gate", URL: "https://robot:hunter2-url@ci.example.com/gate?key=hunter2-query"}}}
	ms.Status.Conditions = []metav1.Condition{{Type: "Stalled", Status: "True", Reason: "X", Message: "login failed: password=hunter2-message, key AKIAIOSFODNN7EXAMPLE, token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"}}
	vs := &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop-1-0-0"}}
	vs.Spec.Template = *ms.Spec.Template.DeepCopy()
	vs.Status.Message = "exit 1: {\"secret\": \"hunter2-message\"} -----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"
	np := &v1alpha1.NotificationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "team"}}
	np.Spec.Receivers = []v1alpha1.NotificationReceiver{{Name: "chat", URL: "https://chat.example.com/hooks/hunter2-url", Template: "hunter2-body {{.title}}"}}
	return []client.Object{ms, vs, np}
}

// TestReportHasNoSecrets checks that a report contains the fields that help to find a problem, and no planted secret.
func TestReportHasNoSecrets(t *testing.T) {
	t.Parallel()
	objects := plant()
	var raw bytes.Buffer
	for _, o := range objects {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		raw.Write(text)
	}
	result := &Result{}
	for _, o := range objects {
		result.Findings = append(result.Findings, judgeObject("Microservice", o, time.Now())...)
	}
	result.Findings = append(result.Findings, Finding{Level: Problem, Text: "Bearer hunter2-header and password: 'hunter2-body'"})
	name := filepath.Join(t.TempDir(), "report.tar.gz")
	if err := writeReport(name, result, objects); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, name)
	for file, text := range files {
		for _, secret := range planted {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q:\n%s", file, secret, text)
			}
		}
	}
	for _, secret := range planted {
		if secret != "hunter2-body" && !bytes.Contains(raw.Bytes(), []byte(secret)) {
			t.Errorf("%q is not planted: the test proves nothing about it", secret)
		}
	}
	shop := files["hlnr-report/objects/shop/microservice/shop.yaml"]
	for _, needed := range []string{"name: LOG_LEVEL", "name: database", "key: password", "image: r.example/shop:1.0.0", "weight: 10", "reason: X", "login failed"} {
		if !strings.Contains(shop, needed) {
			t.Errorf("the report lacks %q:\n%s", needed, shop)
		}
	}
	if err := writeReport(name, result, objects); !errors.Is(err, os.ErrExist) {
		t.Errorf("an existing file is replaced: %v", err)
	}
}

func unpack(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}

func TestJudgements(t *testing.T) {
	t.Parallel()
	for minor, want := range map[string]Level{"30": Problem, "33": OK, "35+": OK, "": Unknown} {
		if got, _ := judgeVersion(version.Info{Major: "1", Minor: minor}); got != want {
			t.Errorf("Kubernetes 1.%s is %s, want %s", minor, got, want)
		}
	}
	want, err := manifest.Definition("ImagePolicy")
	if err != nil {
		t.Fatal(err)
	}
	have := want.DeepCopy()
	if level, text, _ := judgeDefinition(want, have, "v1", "install"); level != Problem || !strings.Contains(text, "not established") {
		t.Errorf("%s: %s", level, text)
	}
	have.Status.Conditions = append(have.Status.Conditions, established())
	if level, text, _ := judgeDefinition(want, have, "v1", "install"); level != OK {
		t.Errorf("%s: %s", level, text)
	}
	older := have.DeepCopy()
	delete(older.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "suspend")
	if level, text, _ := judgeDefinition(want, older, "v1", "install"); level != Warning || !strings.Contains(text, "does not match hlnr v1") {
		t.Errorf("%s: %s", level, text)
	}
	older.Spec.Versions[0].Name = "v1"
	if level, text, _ := judgeDefinition(want, older, "v1", "install"); level != Problem || !strings.Contains(text, "does not serve v1alpha1") {
		t.Errorf("%s: %s", level, text)
	}

	now := time.Now()
	old := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop", Generation: 2, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	if got := judgeObject("Microservice", old, now); len(got) != 1 || !strings.Contains(got[0].Text, "generation 2, observed generation 0") {
		t.Errorf("a manager that does not run: %+v", got)
	}
	old.CreationTimestamp = metav1.NewTime(now)
	if got := judgeObject("Microservice", old, now); len(got) != 0 {
		t.Errorf("a new object: %+v", got)
	}
}

// TestActiveReleaseWithoutPods checks that an active release without ready pods is a problem after some time, and that a release
// with too few ready pods is a warning. The suggested commands contain the namespace, and include a rollback only if there is a
// retained release.
func TestActiveReleaseWithoutPods(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, tc := range map[string]struct {
		after     time.Duration
		available int32
		retained  bool
		level     Level
		rollback  bool
	}{
		"pods can still move to other nodes": {after: 5 * time.Second},
		"no ready pod":                       {after: time.Minute, retained: true, level: Problem, rollback: true},
		"no ready pod of the first release":  {after: time.Minute, level: Problem},
		"some ready pods":                    {after: time.Minute, available: 2, retained: true, level: Warning},
	} {
		ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
		row := func(version string, status v1alpha1.ReleaseStatus) v1alpha1.Release {
			return v1alpha1.Release{VersionedMicroservice: "shop-" + version, SemVer: v1alpha1.SemVer{Name: "1.x", Version: version}, Status: status, Promoted: 1}
		}
		g := v1alpha1.ReleaseGroup{Name: "1.x", Slug: "1-x", Phase: v1alpha1.GroupLive, Active: "1.1.0", Releases: []v1alpha1.Release{row("1.1.0", v1alpha1.ReleaseActive)}}
		if tc.retained {
			g.Releases = append(g.Releases, row("1.0.0", v1alpha1.ReleaseDeprecated))
		}
		ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{g}
		ms.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "ActiveUnavailable", Message: "the active release 1.1.0 of group 1.x has fewer available replicas than desired", LastTransitionTime: metav1.NewTime(now.Add(-tc.after))}}
		release := v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop-1.1.0"}}
		release.Spec.Replicas, release.Status.Available = 3, tc.available
		found := judgeActive(view.Input{Program: "hlnr", Releases: []v1alpha1.VersionedMicroservice{release}}, ms, now)
		if tc.level == "" {
			if len(found) > 0 {
				t.Errorf("%s: %+v", name, found)
			}
			continue
		}
		if len(found) != 1 || found[0].Level != tc.level || !strings.Contains(found[0].Fix, "hlnr tree -n shop shop") || strings.Contains(found[0].Fix, "hlnr rollback -n shop shop --to 1.0.0") != tc.rollback {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// TestRoleOfAnEarlierVersion checks that doctor reports a namespace that the manager does not watch because the namespace's Role, which is from
// an earlier version, lacks a kind.
func TestRoleOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		has  func(*authorizationv1.ResourceAttributes) bool
		want string
	}{
		"all permissions":        {func(*authorizationv1.ResourceAttributes) bool { return true }, ""},
		"no permissions":         {func(*authorizationv1.ResourceAttributes) bool { return false }, "has no permissions in it"},
		"no permission to watch": {func(r *authorizationv1.ResourceAttributes) bool { return r.Verb != "watch" || r.Resource != "freezes" }, "cannot list and watch freezes.hlnr.io in it"},
		"two kinds from later versions": {func(r *authorizationv1.ResourceAttributes) bool {
			return r.Resource != "analysistemplates" && r.Resource != "jobs"
		}, "analysistemplates.hlnr.io, jobs.batch"},
	} {
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			if r, is := o.(*authorizationv1.SubjectAccessReview); is {
				r.Status.Allowed = r.Spec.ResourceAttributes.Namespace == "" || tc.has(r.Spec.ResourceAttributes)
			}
			return nil
		}}).Build()
		d := &doctor{client: c, watched: []string{"shop"}}
		m := &appsv1.Deployment{}
		m.Namespace = "heighliner-system"
		d.checkWatched(t.Context(), m)
		switch found := d.result.Findings; {
		case tc.want == "" && len(found) > 0:
			t.Errorf("%s: %+v", name, found)
		case tc.want != "" && (len(found) != 1 || found[0].Level != Problem || !strings.Contains(found[0].Text, tc.want)):
			t.Errorf("%s: %+v, want %q", name, found, tc.want)
		}
	}
}

// TestClusterRoleOfAnEarlierVersion checks that doctor reports a manager that starts no controller because the ClusterRole, which is from an
// earlier version, lacks a kind. This applies to managers that watch some namespaces, and to managers that watch all namespaces.
func TestClusterRoleOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		watched []string
		lacks   []string
		want    string
	}{
		"all permissions":                  {nil, nil, ""},
		"all permissions, some namespaces": {[]string{"shop"}, nil, ""},
		"cluster-scoped kinds":             {nil, []string{"clusterfreezes", "clusteranalysistemplates"}, "clusteranalysistemplates.hlnr.io, clusterfreezes.hlnr.io in the cluster"},
		"some namespaces":                  {[]string{"shop"}, []string{"clusterfreezes"}, "cannot list and watch clusterfreezes.hlnr.io in the cluster"},
		"namespaced kind":                  {nil, []string{"freezes"}, "cannot list and watch freezes.hlnr.io in the cluster"},
	} {
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			if r, is := o.(*authorizationv1.SubjectAccessReview); is {
				r.Status.Allowed = !slices.Contains(tc.lacks, r.Spec.ResourceAttributes.Resource)
			}
			return nil
		}}).Build()
		d := &doctor{client: c, watched: tc.watched, install: "apply the overlay of the installation again: kubectl apply -k"}
		d.checkWatched(t.Context(), &appsv1.Deployment{})
		switch found := d.result.Findings; {
		case tc.want == "" && len(found) > 0:
			t.Errorf("%s: %+v", name, found)
		case tc.want != "" && (len(found) != 1 || found[0].Level != Problem || !strings.Contains(found[0].Text, tc.want)):
			t.Errorf("%s: %+v, want %q", name, found, tc.want)
		case tc.want != "" && found[0].Fix != d.install+"; this restores the ClusterRole heighliner-manager":
			t.Errorf("%s: the fix is %q", name, found[0].Fix)
		}
	}
}

// TestEndedFreeze checks that doctor reports a freeze that has ended but whose status, which no manager is updating, still
// reports that the freeze applies.
func TestEndedFreeze(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tc := range []struct {
		active bool
		until  time.Duration
		faults int
	}{{true, -time.Hour, 1}, {true, -time.Second, 0}, {true, time.Hour, 0}, {false, -time.Hour, 0}} {
		until := metav1.NewTime(now.Add(tc.until))
		f := &v1alpha1.Freeze{Status: v1alpha1.FreezeStatus{Active: tc.active, Until: &until, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}}}
		if got := judgeObject("Freeze", f, now); len(got) != tc.faults {
			t.Errorf("%+v: %+v", tc, got)
		}
	}
}

// TestHostileFindings checks that fields of objects can neither control the terminal nor add lines.
func TestHostileFindings(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"a\x1b[2Jb":            "a[2Jb",
		"a\x1b]52;c;aGk=\x07b": "a]52;c;aGk=b",
		"a\rb":                 "ab",
		"a\u202eb":             "ab",
		"a\n✔ Manager: b":      "a ✔ Manager: b",
	} {
		r := Result{Findings: []Finding{{Level: Problem, Check: "Microservice", Text: given, Fix: given}}}
		var b strings.Builder
		if err := r.write(&b); err != nil {
			t.Fatal(err)
		}
		if got, want := b.String(), "Microservice: "+want+"\n    "+want+"\n1 problem, 0 warnings\n"; !strings.HasSuffix(got, want) || strings.Count(got, "\n") != 3 {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

// TestSummary checks that the last line contains the number of checks that were not possible, so that users do not assume that these
// checks passed.
func TestSummary(t *testing.T) {
	t.Parallel()
	r := Result{Findings: []Finding{{Level: Unknown, Check: "Permissions", Text: "a"}, {Level: Unknown, Check: "CRDs", Text: "b"}}}
	var b strings.Builder
	if err := r.write(&b); err != nil || !strings.HasSuffix(b.String(), "\n0 problems, 0 warnings; 2 checks were not possible\n") {
		t.Errorf("%q, %v", b.String(), err)
	}
}

// TestIncompleteChecks checks that doctor fails if the API server rejects the credentials, or if objects cannot be read.
func TestIncompleteChecks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		version, other int
		want           string
	}{
		"credentials": {http.StatusUnauthorized, http.StatusUnauthorized, "the API server rejected your credentials (401)"},
		"expired":     {http.StatusOK, http.StatusUnauthorized, "no problem was found, but some objects could not be read: run the command again"},
		"unavailable": {http.StatusOK, http.StatusInternalServerError, "no problem was found, but some objects could not be read: run the command again"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path != "/version" {
				w.WriteHeader(tc.other)
				return
			}
			w.WriteHeader(tc.version)
			fmt.Fprint(w, `{"major":"1","minor":"35","gitVersion":"v1.35.0"}`)
		}))
		t.Cleanup(server.Close)
		if code, stdout, stderr := call(t, "--server", server.URL); code != cli.ExitFailed || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", name, code, cli.ExitFailed, tc.want, stdout, stderr)
		}
	}
}

func established() apiextensionsv1.CustomResourceDefinitionCondition {
	return apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}
}

// TestJudgeGateway checks that listeners accept hosts by name and by wildcard, and that missing listeners are reported.
func TestJudgeGateway(t *testing.T) {
	t.Parallel()
	listener := func(name, hostname string, protocol gatewayv1.ProtocolType) gatewayv1.Listener {
		l := gatewayv1.Listener{Name: gatewayv1.SectionName(name), Protocol: protocol, Port: 80}
		if h := gatewayv1.Hostname(hostname); hostname != "" {
			l.Hostname = &h
		}
		return l
	}
	none := func(host string) string {
		return "Gateway infra/public has no listener for " + host + ": NetworkPolicy shop/shop cannot be programmed"
	}
	for name, test := range map[string]struct {
		listeners []gatewayv1.Listener
		section   string
		hosts     []string
		status    []metav1.Condition
		want      []string
	}{
		"any host":               {[]gatewayv1.Listener{listener("http", "", "HTTP")}, "", []string{"a.example.com"}, nil, nil},
		"by name":                {[]gatewayv1.Listener{listener("http", "a.example.com", "HTTP")}, "", []string{"a.example.com", "b.example.com"}, nil, []string{none("b.example.com")}},
		"by wildcard":            {[]gatewayv1.Listener{listener("http", "*.example.com", "HTTPS")}, "", []string{"a.b.example.com", "*.b.example.com", "example.com"}, nil, []string{none("example.com")}},
		"host with wildcard":     {[]gatewayv1.Listener{listener("http", "a.example.com", "HTTP")}, "", []string{"*.example.com"}, nil, nil},
		"another section":        {[]gatewayv1.Listener{listener("http", "", "HTTP"), listener("tls", "b.example.com", "HTTPS")}, "tls", []string{"a.example.com"}, nil, []string{none("a.example.com")}},
		"listener without hosts": {[]gatewayv1.Listener{listener("tcp", "", "TCP")}, "", []string{"a.example.com"}, nil, []string{none("a.example.com")}},
		"not programmed": {[]gatewayv1.Listener{listener("http", "", "HTTP")}, "", []string{"a.example.com"},
			[]metav1.Condition{{Type: "Programmed", Status: "False", Reason: "AddressNotAssigned", Message: "no address"}}, []string{"Gateway infra/public is not programmed: AddressNotAssigned: no address"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "public"}, Spec: gatewayv1.GatewaySpec{Listeners: test.listeners}}
			g.Status.Conditions = test.status
			p := &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
			p.Spec.Provider = &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Namespace: "infra", Name: "public", SectionName: test.section}}}}
			p.Spec.Domains = []v1alpha1.Domain{{Domain: "{{.ReleaseGroupName}}.nowhere"}}
			for _, h := range test.hosts {
				p.Status.Domains = append(p.Status.Domains, v1alpha1.DomainStatus{Domain: h})
			}
			var got []string
			for _, f := range judgeGateway(g, []*v1alpha1.NetworkPolicy{p}) {
				got = append(got, f.Text)
				if f.Level != Problem || f.Fix == "" {
					t.Errorf("%+v", f)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestTraffic checks the findings about Gateways and Prometheus servers to which objects refer.
func TestTraffic(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%s,"1"]}]}}`, r.FormValue("time"))
	}))
	t.Cleanup(server.Close)
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "public"}}
	gateway.Spec.GatewayClassName = "test"
	gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
	policy := func(name, gateway string) *v1alpha1.NetworkPolicy {
		p := &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		p.Spec.Ports = []v1alpha1.NetworkPort{{Name: "http", Port: 80}}
		p.Spec.Provider = &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Name: gateway}}}}
		p.Spec.Domains = []v1alpha1.Domain{{Domain: name + ".example.com"}}
		return p
	}
	service := func(name, address string) *v1alpha1.Microservice {
		ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		ms.Spec.ImagePolicyRef.Name = name
		ms.Spec.Template.Spec.Containers = []corev1.Container{{Name: name}}
		least := 99.0
		ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}}, Analysis: &v1alpha1.CanaryAnalysis{
			Provider: v1alpha1.AnalysisProvider{Prometheus: &v1alpha1.PrometheusProvider{Address: address}},
			Metrics:  []v1alpha1.AnalysisMetric{{Name: "rate", SuccessRate: &v1alpha1.SuccessRateMetric{}, ThresholdRange: v1alpha1.ValueRange{Min: &least}}},
		}}
		return ms
	}
	locked := service("locked", server.URL)
	locked.Spec.UpdateStrategy.Canary.Analysis.Provider.Prometheus.SecretRef = &v1alpha1.Reference{Name: "prometheus"}
	for _, o := range []client.Object{gateway, policy("shop", "public"), policy("cart", "publik"), service("shop", server.URL), service("cart", "http://127.0.0.1:1"), locked} {
		if err := env.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	_, all := findings(t, namespace)
	for _, want := range []string{
		"OK Gateway: 1 Gateway with listeners for all hosts",
		"Problem Gateway: Gateway " + namespace + "/publik, referenced by NetworkPolicy " + namespace + "/cart, does not exist",
		"OK Prometheus: " + server.URL + " responds",
		"Unknown Prometheus: http://127.0.0.1:1 does not respond to this machine, but the manager might be able to reach it: Unreachable: ",
		"Unknown Prometheus: the servers of 1 Microservice were not checked, because they require Secrets, whose content is not read",
	} {
		if !has(all, want) {
			t.Errorf("no finding %q in:\n%s", want, strings.Join(all, "\n"))
		}
	}
	slow := judgeServer("http://p:9090", 12, 4*time.Second, nil)
	if slow.Level != Warning || slow.Text != "http://p:9090 responds in 4s: the analyses of 12 Microservices might time out" {
		t.Errorf("%+v", slow)
	}
}

// TestLeader checks that, without shards, doctor checks the leader election Lease. A Lease that is not renewed, or that has no holder, is a
// problem.
func TestLeader(t *testing.T) {
	t.Parallel()
	l := newLeases(t)
	check := func(d *doctor) { d.checkLeader(t.Context()) }
	l.same(check)
	l.lease("manager.hlnr.io", "a", time.Second)
	l.lease(shard.LeaseName(0), "", time.Hour)
	l.same(check, "OK the manager is the leader")
	l.lease("manager.hlnr.io", "", time.Second)
	l.same(check, "Problem no manager is the leader: the Lease manager.hlnr.io was released")
	l.lease("manager.hlnr.io", "a", time.Hour)
	l.same(check, "Problem no manager is the leader: the Lease manager.hlnr.io is not renewed")
}

// TestShardLeases checks that, with shards, doctor checks only the Leases of the shards.
func TestShardLeases(t *testing.T) {
	t.Parallel()
	l := newLeases(t)
	check := func(d *doctor) { d.checkShards(t.Context(), 3) }
	l.lease("manager.hlnr.io", "a", time.Hour) // The manager ran without shards earlier.
	l.lease(shard.LeaseName(0), "a", time.Second)
	l.lease(shard.LeaseName(1), "b", time.Second)
	l.lease(shard.LeaseName(3), "", time.Hour)
	l.same(check, "Problem no manager reconciles the namespaces of shard 2: the Lease shard-2.manager.hlnr.io does not exist",
		"OK managers that hold shard Leases: 2; held shards: 2 of 3")
	l.lease(shard.LeaseName(2), "a", time.Second)
	l.same(check, "OK managers that hold shard Leases: 2; held shards: 3 of 3")
	l.lease(shard.LeaseName(1), "b", time.Hour)
	l.lease(shard.LeaseName(2), "", time.Second)
	l.same(check, "Problem no manager reconciles the namespaces of shard 1: the Lease shard-1.manager.hlnr.io is not renewed",
		"Problem no manager reconciles the namespaces of shard 2: the Lease shard-2.manager.hlnr.io was released",
		"OK managers that hold shard Leases: 1; held shards: 1 of 3")
}

func TestArgument(t *testing.T) {
	var m appsv1.Deployment
	m.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy"}, {Name: "manager", Args: []string{"--shards=3", "--shards-are=4", "--leader-elect"}}}
	for flag, want := range map[string]string{"shards": "3", "leader-elect": "", "prometheus-address": ""} {
		if got := argument(&m, flag); got != want {
			t.Errorf("--%s is %q, want %q", flag, got, want)
		}
	}
}

// leases are the Leases of a namespace that doctor checks.
type leases struct {
	*testing.T
	namespace string
	now       time.Time
}

func newLeases(t *testing.T) leases { return leases{t, env.Namespace(t), time.Now()} }

// lease writes a Lease that was last renewed the given time ago.
func (l leases) lease(name, holder string, age time.Duration) {
	l.Helper()
	o := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	o.Spec.HolderIdentity, o.Spec.RenewTime = &holder, &metav1.MicroTime{Time: l.now.Add(-age)}
	err := env.Client.Create(l.Context(), o)
	if apierrors.IsAlreadyExists(err) {
		err = env.Client.Patch(l.Context(), o, client.Merge)
	}
	if err != nil {
		l.Fatal(err)
	}
}

func (l leases) same(check func(*doctor), want ...string) {
	l.Helper()
	d := &doctor{Factory: &cli.Factory{Clock: clocktesting.NewFakeClock(l.now)}, client: env.Client, manager: l.namespace}
	check(d)
	var got []string
	for _, f := range d.result.Findings {
		got = append(got, string(f.Level)+" "+f.Text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.Errorf("findings (-want +got):\n%s", diff)
	}
}
