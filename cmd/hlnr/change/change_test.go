package change

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/test/manager"
)

var cluster *manager.Cluster

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(manager.Run(m, &cluster))
}

func call(t *testing.T, stdin string, args ...string) (code cli.Code, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	f := cli.New("hlnr", "test", genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &err})
	code = cli.Run(t.Context(), f, args, Commands...)
	return code, out.String(), err.String()
}

const microservice = `apiVersion: hlnr.io/v1alpha1
kind: Microservice
metadata: {name: shop}
spec:
  imagePolicyRef: {name: shop}
  availability: {replicas: 2}
  updateStrategy:
    canary:
      steps:
      - {name: tenth, weight: 10, pause: {duration: 10m}}
      - {weight: 50, approval: {}}
  template:
    spec:
      containers:
      - name: shop
        ports: [{containerPort: 8080}]
        readinessProbe: {exec: {command: ["true"]}}
`

func TestLint(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none")) // The command needs no cluster.
	shared := "---\napiVersion: hlnr.io/v1alpha1\nkind: AnalysisTemplate\nmetadata: {name: errors}\nspec:\n  args: [{name: job}]\n  count: 3\n  metrics: [{name: errors, prometheus: {query: \"errors{job=\\\"{{.Args.job}}\\\"}\"}, thresholdRange: {max: 1}}]\n"
	measured := func(ref string) string {
		return strings.Replace(microservice, "    canary:\n", "    canary:\n      analysisTemplateRef: {"+ref+"}\n", 1) + shared
	}
	policy := "apiVersion: hlnr.io/v1alpha1\nkind: ImagePolicy\nmetadata: {name: shop}\nspec: {image: registry.example.com/shop}\n"
	for name, c := range map[string]struct {
		stdin string
		code  cli.Code
		want  string
	}{
		"valid":               {microservice + "---\n" + policy + "---\nkind: ConfigMap\napiVersion: v1\n", cli.ExitYes, "2 objects, 1 of other kinds skipped: valid\n"},
		"schema":              {strings.Replace(microservice, "weight: 50", "weight: 150", 1), cli.ExitNo, "standard input: Microservice shop: spec.updateStrategy.canary.steps[1].weight: Invalid value: 150"},
		"rule":                {strings.Replace(microservice, "weight: 50", "weight: 5", 1), cli.ExitNo, "weights must not decrease from one step to the next"},
		"unknown field":       {strings.Replace(microservice, "replicas: 2", "replica: 2", 1), cli.ExitNo, `unknown field "spec.availability.replica"`},
		"time zone":           {strings.Replace(microservice, "weight: 50,", "weight: 50, window: {timeZone: Europe/Atlantis},", 1), cli.ExitNo, `spec.updateStrategy.canary.steps[1].window.timeZone: there is no time zone "Europe/Atlantis"`},
		"range":               {strings.TrimSuffix(policy, "}\n") + `, versioning: {range: "one"}}`, cli.ExitNo, `spec.versioning.range: "one" is not a range`},
		"template":            {"apiVersion: hlnr.io/v1alpha1\nkind: NotificationPolicy\nmetadata: {name: team}\nspec: {receivers: [{name: chat, type: Webhook, url: \"https://chat.example.com\", template: \"{{.Title}}\"}]}\n", cli.ExitNo, "spec.receivers[0].template: fill template"},
		"shared":              {measured("name: errors, args: [{name: job, value: shop}]"), cli.ExitYes, "2 objects: valid"},
		"shared, value":       {measured("name: errors"), cli.ExitNo, "Microservice shop: spec.updateStrategy.canary.analysisTemplateRef"},
		"shared, metric":      {measured("name: errors, args: [{name: job, value: shop}], metrics: [{name: latency, dryRun: true}]"), cli.ExitNo, "Microservice shop: spec.updateStrategy.canary.analysisTemplateRef"},
		"shared, other":       {measured("name: others"), cli.ExitYes, "2 objects: valid"},
		"kind":                {strings.Replace(microservice, "kind: Microservice", "kind: Microservise", 1), cli.ExitNo, `did you mean "Microservice"`},
		"version":             {strings.Replace(microservice, "v1alpha1", "v1", 1), cli.ExitNo, "apiVersion: hlnr.io/v1 is unknown: use hlnr.io/v1alpha1"},
		"no name":             {strings.Replace(microservice, "{name: shop}\nspec", "{}\nspec", 1), cli.ExitNo, "metadata.name: Required value: name or generateName is required"},
		"list with two items": {"kind: List\napiVersion: v1\nitems:\n- {apiVersion: hlnr.io/v1alpha1, kind: ImagePolicy, metadata: {name: a}, spec: {image: r.example/a}}\n- {apiVersion: hlnr.io/v1alpha1, kind: ImagePolicy, metadata: {name: b}, spec: {}}\n", cli.ExitNo, "ImagePolicy b: spec.image: Required value"},
		"label":               {strings.Replace(microservice, "{name: shop}\nspec", "{name: shop, labels: {team: \"a b: c d!\"}}\nspec", 1), cli.ExitNo, `Microservice shop: metadata.labels: Invalid value: "a b: c d!"`},
		"label key":           {strings.Replace(microservice, "{name: shop}\nspec", "{name: shop, labels: {\"a b\": c}}\nspec", 1), cli.ExitNo, `metadata.labels: Invalid value: "a b"`},
		"annotations":         {strings.Replace(microservice, "{name: shop}\nspec", "{name: shop, annotations: {note: "+strings.Repeat("a", 5<<20)+"}}\nspec", 1), cli.ExitNo, "metadata.annotations: Too long: may not be more than 262144 bytes"},
		"name":                {strings.Replace(policy, "{name: shop}", "{name: Shop_1}", 1), cli.ExitNo, `Invalid value: "Shop_1"`},
		"namespace":           {strings.Replace(microservice, "{name: shop}\nspec", "{name: shop, namespace: a.b}\nspec", 1), cli.ExitNo, `metadata.namespace: Invalid value: "a.b"`},
		"generated name":      {strings.Replace(policy, "{name: shop}", "{generateName: shop-}", 1), cli.ExitYes, "1 object: valid"},
		"other kinds":         {"kind: ConfigMap\napiVersion: v1\n", cli.ExitUsage, "no hlnr.io object found"},
		"not YAML":            {"a: b: c", cli.ExitUsage, "standard input: read YAML"},
	} {
		code, stdout, stderr := call(t, c.stdin, "lint", "-f", "-")
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: exit code %d, output %q, error %q; want %d and %q", name, code, stdout, stderr, c.code, c.want)
		}
	}
	if code, _, stderr := call(t, "", "lint"); code != cli.ExitUsage || !strings.Contains(stderr, "--filename is required") {
		t.Errorf("without a file: exit code %d, error %q", code, stderr)
	}
	if code, stdout, stderr := call(t, "", "lint", "-f", "../../../config/samples"); code != cli.ExitYes {
		t.Errorf("the samples: exit code %d, output %q, error %q", code, stdout, stderr)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "a: b: c", "b.yaml": policy, "c.json": "{"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, stderr := call(t, "", "lint", "-f", folder); code != cli.ExitUsage || !strings.Contains(stderr, "a.yaml") || !strings.Contains(stderr, "c.json") {
		t.Errorf("two unreadable files in a folder: exit code %d, error %q", code, stderr)
	}
}

// TestLintTakesDocuments checks that lint accepts each Heighliner object in docs. The tests in test/docs check that an
// API server accepts these objects.
func TestLintTakesDocuments(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```$")
	taken := 0
	err := filepath.WalkDir("../../../docs", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, b := range block.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains("\n"+b[1], "\napiVersion: hlnr.io/v1alpha1") {
				continue
			}
			if code, stdout, stderr := call(t, b[1], "lint", "-f", "-"); code != cli.ExitYes {
				t.Errorf("%s: %s%s%s", path, b[1], stdout, stderr)
			}
			taken++
		}
		return nil
	})
	if err != nil || taken < 20 {
		t.Errorf("%d documents, %v", taken, err)
	}
}

// TestHostileTexts checks that text from files and objects can neither control the terminal nor add lines.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"a\x1b[2Jb":            "a[2Jb",
		"a\x1b]52;c;aGk=\x07b": "a]52;c;aGk=b",
		"a\rb":                 "ab",
		"a\u202eb":             "ab",
		"a\nshop: is created":  "a shop: is created",
	} {
		o := Object{Kind: "Microservice", Name: given, Fields: []Field{{given, given, given}}, NotAllowed: []string{given}}
		plan, lint := &Report{Objects: []Object{o}}, &lintReport{Objects: 1, Findings: []Finding{{given, given, given}}}
		for name, c := range map[string]struct {
			write func(io.Writer) error
			want  string
		}{
			"plan": {plan.writePlan, want + ": not allowed\n  " + want + "\n"},
			"diff": {plan.writeDiff, want + ": not allowed\n  " + want + "\n  " + want + "\n  - " + want + "\n  + " + want + "\n"},
			"lint": {lint.write, want + ": " + want + ": " + want + "\n1 object: 1 finding\n"},
		} {
			var b strings.Builder
			if err := c.write(&b); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, b.String()); diff != "" {
				t.Errorf("%s: -want +got\n%s", name, diff)
			}
		}
	}
}

// TestMetadata checks that labels and annotations are compared in the form in which an apply stores them.
func TestMetadata(t *testing.T) {
	t.Parallel()
	const applied = `{"metadata":{"annotations":{"note":"a","argocd.argoproj.io/tracking-id":"x"},"labels":{"team":"a"}}}`
	type keys = map[string]string
	for name, c := range map[string]struct {
		before, after keys
		applied       string
		want          []Field
	}{
		"none":                         {nil, nil, "", nil},
		"same":                         {keys{"team": "a"}, keys{"team": "a"}, applied, nil},
		"set by others":                {keys{"tool": "a"}, nil, applied, nil},
		"set by others, no last apply": {keys{"team": "a"}, nil, "", nil},
		"invalid last apply":           {keys{"team": "a"}, nil, "{", nil},
		"added":                        {nil, keys{"team": "a"}, "", []Field{{"metadata.labels[team]", "", `"a"`}}},
		"changed":                      {keys{"team": "a"}, keys{"team": "b"}, applied, []Field{{"metadata.labels[team]", `"a"`, `"b"`}}},
		"removed":                      {keys{"team": "a"}, nil, applied, []Field{{"metadata.labels[team]", `"a"`, ""}}},
		"secret":                       {nil, keys{"token": "a"}, "", []Field{{"metadata.labels[token]", "", hidden}}},
	} {
		before, after := &v1alpha1.ImagePolicy{}, &v1alpha1.ImagePolicy{}
		before.Spec.Image, after.Spec.Image = "r.example/shop", "r.example/shop"
		before.Labels, after.Labels = c.before, c.after
		before.Annotations = keys{"note": "a", "argocd.argoproj.io/tracking-id": "x", "hlnr.io/decided-by": "ana"}
		after.Annotations = keys{"note": "a"}
		if c.applied != "" {
			before.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = c.applied
		}
		merge(before, after)
		got, err := fieldsOf(before, after)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got\n%s", name, err, diff)
		}
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	env := func(name, value string) map[string]any { return map[string]any{"name": name, "value": value} }
	container := func(env ...any) map[string]any {
		return map[string]any{"containers": []any{map[string]any{"name": "shop", "env": env}}}
	}
	steps := func(names ...string) map[string]any {
		var list []any
		for _, name := range names {
			step := map[string]any{"weight": int64(10)}
			if name != "" {
				step["name"] = name
			}
			list = append(list, step)
		}
		return map[string]any{"steps": list}
	}
	for name, c := range map[string]struct {
		before, after any
		want          []Field
	}{
		"same":           {container(env("A", "1")), container(env("A", "1")), nil},
		"value":          {container(env("A", "1")), container(env("A", "2")), []Field{{"spec.containers[shop].env[A].value", `"1"`, `"2"`}}},
		"order":          {container(env("A", "1"), env("B", "1")), container(env("B", "1"), env("A", "1")), []Field{{"spec.containers[shop].env", `["A","B"]`, `["B","A"]`}}},
		"order of steps": {steps("tenth", "", "half"), steps("half", "", "tenth"), []Field{{"spec.steps", `["tenth","1","half"]`, `["half","1","tenth"]`}}},
		"added":          {container(), container(env("A", "1")), []Field{{"spec.containers[shop].env[A].name", "", `"A"`}, {"spec.containers[shop].env[A].value", "", `"1"`}}},
		"removed":        {map[string]any{"paused": true}, map[string]any{}, []Field{{"spec.paused", "true", ""}}},
		"secret":         {container(env("DB_PASSWORD", "old")), container(env("DB_PASSWORD", "new")), []Field{{"spec.containers[shop].env[DB_PASSWORD].value", hidden, hidden}}},
		"types":          {map[string]any{"a": "1"}, map[string]any{"a": map[string]any{"b": 1}}, []Field{{"spec.a", `"1"`, `{"b":1}`}}},
	} {
		if diff := cmp.Diff(c.want, fields("spec", c.before, c.after)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// TestHeadline checks that a new release is reported even if no field differs.
func TestHeadline(t *testing.T) {
	t.Parallel()
	changed := []Field{{"spec.template.spec.containers[shop].env", `["A","B"]`, `["B","A"]`}}
	for want, o := range map[string]Object{
		"nothing changes": {},
		"is released again with the new configuration: template.spec.containers[shop].env": {Fields: changed, NewRelease: true},
		"is released again with a new configuration, although no field differs":            {NewRelease: true},
		"changes in place, without a new release: template.spec.containers[shop].env":      {Fields: changed},
	} {
		if got := o.headline(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestPlan checks that plan shows the releases that an apply would start, and writes nothing.
func TestPlan(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	ask := func(command, stdin string, args ...string) (cli.Code, string) {
		t.Helper()
		code, stdout, stderr := call(t, stdin, slices.Concat([]string{command, "-f", "-", "--kubeconfig", cluster.Kubeconfig(), "-n", namespace}, args)...)
		return code, stdout + stderr
	}
	expect := func(code cli.Code, command, stdin string, texts ...string) {
		t.Helper()
		got, out := ask(command, stdin)
		for _, text := range texts {
			if got != code || !strings.Contains(out, text) {
				t.Errorf("%s: exit code %d; want %d and %q in:\n%s", command, got, code, text, out)
			}
		}
	}
	cluster.Microservice(t, namespace, "shop",
		v1alpha1.CanaryStep{Name: "tenth", Weight: 10, Pause: &v1alpha1.CanaryPause{Duration: "10m"}},
		v1alpha1.CanaryStep{Weight: 50, Approval: &v1alpha1.CanaryApproval{}})
	cluster.Offer(t, namespace, "shop", "1.0.0")
	cluster.Await(t, namespace, "shop", "1.0.0", v1alpha1.ReleaseActive)

	expect(cli.ExitYes, "plan", microservice, "shop: nothing changes\n")
	expect(cli.ExitYes, "diff", microservice, "shop: nothing changes\n")
	labeled := strings.Replace(microservice, "{name: shop}\nspec", "{name: shop, labels: {team: shop}, annotations: {note: new}}\nspec", 1)
	expect(cli.ExitYes, "plan", labeled, "shop: changes in place, without a new release: metadata.labels[team], metadata.annotations[note]\n")
	expect(cli.ExitYes, "diff", labeled, "  metadata.labels[team]\n  + \"shop\"\n")
	expect(cli.ExitNo, "plan", strings.Replace(labeled, "team: shop", "team: \"a b: c d!\"", 1), "shop: not allowed\n", "metadata.labels: Invalid value")
	changed := strings.Replace(microservice, "        ports:", "        env: [{name: LOG_LEVEL, value: debug}, {name: API_TOKEN, value: hunter2}]\n        ports:", 1)
	expect(cli.ExitYes, "plan", changed, "shop: is released again with the new configuration: template.spec.containers[shop].env", "10m0s at least, 1 approval, +1 pod during the rollout", "waits in step \"2\" for approval")
	expect(cli.ExitYes, "diff", changed, "shop: is released again", "  spec.template.spec.containers[shop].env[LOG_LEVEL].value\n  + \"debug\"\n")
	if _, out := ask("diff", changed); strings.Contains(out, "hunter2") {
		t.Errorf("a secret is shown: %s", out)
	}
	expect(cli.ExitYes, "plan", strings.Replace(microservice, "replicas: 2", "replicas: 3", 1), "shop: changes in place, without a new release: availability.replicas")
	expect(cli.ExitNo, "plan", strings.Replace(microservice, "weight: 50", "weight: 150", 1), "shop: not allowed\n", "spec.updateStrategy.canary.steps[1].weight: Invalid value: 150")
	expect(cli.ExitYes, "plan", strings.Replace(microservice, "name: shop}\nspec", "name: cart}\nspec", 1), "cart: is created\n", "1.0.0 (cart-1-0-0-")
	expect(cli.ExitYes, "plan", "apiVersion: hlnr.io/v1alpha1\nkind: NetworkPolicy\nmetadata: {name: shop}\nspec: {provider: {ingress: {className: nginx}}, ports: [{name: http, port: 80}], domains: [{domain: shop.example.com}]}\n", "NetworkPolicy shop: is created\n", "host shop.example.com is added")
	network := "apiVersion: hlnr.io/v1alpha1\nkind: NetworkPolicy\nmetadata: {name: shop}\nspec: {provider: {gateway: {parentRefs: [{name: public}]}}, ports: [{name: http, port: 80}], domains: [{domain: \"{{.ReleaseGroupName}}.shop.example.com\"}]}\n"
	expect(cli.ExitYes, "plan", network, "NetworkPolicy shop: is created\n", "host {{.ReleaseGroupName}}.shop.example.com is added\n", "host 1-x.shop.example.com is added\n")

	policy := "apiVersion: hlnr.io/v1alpha1\nkind: ImagePolicy\nmetadata: {name: shop}\nspec: {image: r.example/shop"
	cluster.Offer(t, namespace, "shop", "2.0.0", "1.0.0")
	expect(cli.ExitYes, "plan", policy+"}\n", "ImagePolicy shop: nothing changes\n")
	expect(cli.ExitYes, "plan", policy+", versioning: {range: \"<2.0.0\"}}\n", "no longer offered: 2.0.0 (Range: ", "the newest version is 1.0.0 instead of 2.0.0", "this applies to the 2 tags that the last scan recorded")
	expect(cli.ExitYes, "plan", policy+", versioning: {range: \">=1.0.0\"}}\n", "the same versions are offered")
	expect(cli.ExitUsage, "plan", "kind: ConfigMap\napiVersion: v1\n", "no hlnr.io object found")

	release := cluster.Await(t, namespace, "shop", "1.0.0", v1alpha1.ReleaseActive)
	if len(release.Spec.Template.Spec.Containers[0].Env) > 0 {
		t.Error("a plan wrote to the cluster")
	}
}
