package microservice

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/status"
)

// TestSchemaAdmitsAllConditions checks that the schema of the status admits all conditions of the controller
// together. Otherwise, the API server would reject the status, and with it the rollout state.
func TestSchemaAdmitsAllConditions(t *testing.T) {
	t.Parallel()
	kinds := conditionsOfTheCode(t)
	raw, err := os.ReadFile("../../config/crd/hlnr.io_microservices.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		t.Fatal(err)
	}
	for _, v := range crd.Spec.Versions {
		limit := v.Schema.OpenAPIV3Schema.Properties["status"].Properties["conditions"].MaxItems
		if limit == nil {
			t.Fatalf("status.conditions of %s has no maxItems", v.Name)
		}
		if len(kinds) > 13 {
			t.Errorf("there are %d conditions, want at most 13: %s", len(kinds), strings.Join(kinds, ", "))
		}
		if all := slices.Sorted(slices.Values(conditions)); !slices.Equal(kinds, all) {
			t.Errorf("the controller sets %v, and keeps %v", kinds, all)
		}
		if int64(len(kinds)) > *limit {
			t.Errorf("the controller sets %d conditions, and %s admits %d: %s", len(kinds), v.Name, *limit, strings.Join(kinds, ", "))
		}
	}
}

// TestReadyOfExclusiveGroup checks that Ready is False and its message contains both releases while no
// release of an exclusive group has ready pods, and that the group counts as serving while a canary has the
// pods.
func TestReadyOfExclusiveGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		exclusive, available bool
		gate                 v1alpha1.Gate
		ready                bool
		reason, message      string
	}{
		"replacement":                          {true, false, "", false, "ActiveStopped", "in group 1.x, the pods of 1.0.0 were stopped so that 1.1.0 can run; 1.1.0 is starting"},
		"step":                                 {true, true, "", true, "", "active: 1.0.0 in group 1.x (1.1.0 runs instead)"},
		"before the replacement":               {true, false, v1alpha1.GateConfirmRollout, false, "ActiveUnavailable", "the active release 1.0.0 of group 1.x has fewer available replicas than desired"},
		"a Microservice that is not exclusive": {false, true, "", false, "ActiveUnavailable", "the active release 1.0.0 of group 1.x has fewer available replicas than desired"},
	} {
		ms := &v1alpha1.Microservice{}
		ms.Spec.Availability.Exclusive = c.exclusive
		ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{
			Name: "1.x", Slug: "1-x", Phase: v1alpha1.GroupLive, Rollout: &v1alpha1.Rollout{Release: "shop-1-1-0", Gate: c.gate},
			Releases: []v1alpha1.Release{
				{VersionedMicroservice: "shop-1-0-0", SemVer: v1alpha1.SemVer{Version: "1.0.0"}, Status: v1alpha1.ReleaseActive},
				{VersionedMicroservice: "shop-1-1-0", SemVer: v1alpha1.SemVer{Version: "1.1.0"}, Status: v1alpha1.ReleaseCanary, Available: c.available, Weight: 100},
			},
		}}
		ready, reason, message := serves(&pass{observed: observed{ms: ms}})
		if ready != c.ready || reason != c.reason || message != c.message {
			t.Errorf("%s: %t %s %q, want %t %s %q", name, ready, reason, message, c.ready, c.reason, c.message)
		}
	}
}

// TestReadyWithoutReleases checks that the message contains an offered version that spec.paused or spec.endedGroups prevents from starting.
func TestReadyWithoutReleases(t *testing.T) {
	t.Parallel()
	policy := &v1alpha1.ImagePolicy{}
	policy.Status.Releases = []v1alpha1.OfferedRelease{
		{SemVer: v1alpha1.SemVer{Name: "1.x", Version: "1.0.0"}, Group: "1-x", Level: v1alpha1.LevelRelease},
		{SemVer: v1alpha1.SemVer{Name: "0.x", Version: "0.9.0"}, Group: "0-x", Level: v1alpha1.LevelRelease},
	}
	for name, c := range map[string]struct {
		policy          *v1alpha1.ImagePolicy
		paused, stale   bool
		ended           []string
		reason, message string
	}{
		"no version offered":    {nil, true, true, nil, "NoVersions", `ImagePolicy "shop" offers no version yet`},
		"paused":                {policy, true, false, nil, "Paused", "1.0.0 does not start: spec.paused is true"},
		"one group has ended":   {policy, true, false, []string{"1.x"}, "Paused", "0.9.0 does not start: spec.paused is true"},
		"all groups have ended": {policy, false, false, []string{"1.x", "0-x"}, "Ended", "1.0.0 does not start: spec.endedGroups names its group 1.x"},
		"not scanned again":     {policy, false, true, nil, "SourcePending", "the ImagePolicy has not completed a scan with its current specification yet"},
	} {
		ms := &v1alpha1.Microservice{}
		ms.Spec.ImagePolicyRef.Name, ms.Spec.Paused, ms.Spec.EndedGroups = "shop", c.paused, c.ended
		if ready, reason, message := serves(&pass{observed: observed{ms: ms, policy: c.policy, facts: release.Observed{SourceStale: c.stale}}}); ready || reason != c.reason || message != c.message {
			t.Errorf("%s: %t %s %q, want %s %q", name, ready, reason, message, c.reason, c.message)
		}
	}
}

// TestReadyWhileGroupsEnd checks the message while all release groups are closing.
func TestReadyWhileGroupsEnd(t *testing.T) {
	t.Parallel()
	ms := &v1alpha1.Microservice{}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Name: "1.x", Slug: "1-x", Phase: v1alpha1.GroupClosing}}
	if ready, reason, message := serves(&pass{observed: observed{ms: ms}}); !ready || reason != "" || message != "all release groups except previews are ending" {
		t.Errorf("%t %s %q", ready, reason, message)
	}
}

// conditionsOfTheCode finds the types of all conditions that this package sets. It searches the source of
// the package for calls to status.Set, for the notes of a plan, and for the functions of package status that
// set the summary conditions.
func conditionsOfTheCode(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	for kind := range release.Conditions {
		found[string(kind)] = true
	}
	var conds []metav1.Condition
	for _, set := range []func(*[]metav1.Condition, int64, string, string){status.Ready, status.Reconciling, status.Stalled} {
		set(&conds, 1, "Played", "")
		for _, c := range conds {
			found[c.Type] = true
		}
	}
	constants := stringConstants(t, "../../apis/v1alpha1")
	calls := 0
	for _, file := range parse(t, ".") {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isCall(call, "status", "Set") {
				return true
			}
			calls++
			switch kind := call.Args[2].(type) {
			case *ast.BasicLit:
				text, err := strconv.Unquote(kind.Value)
				if err != nil {
					t.Errorf("the type of a condition is %s", kind.Value)
				}
				found[text] = true
			case *ast.SelectorExpr:
				if constants[kind.Sel.Name] == "" {
					t.Errorf("the type of a condition is %s, which is not a constant of the API", kind.Sel.Name)
				}
				found[constants[kind.Sel.Name]] = true
			case *ast.CallExpr:
				if f, ok := kind.Fun.(*ast.Ident); !ok || f.Name != "string" { // of release.Conditions
					t.Errorf("the type of a condition is a call to %v", kind.Fun)
				}
			default:
				t.Errorf("the type of a condition is a %T", kind)
			}
			return true
		})
	}
	if calls < 5 {
		t.Errorf("found only %d calls to status.Set in the source, want at least 5", calls)
	}
	return slices.Sorted(maps.Keys(found))
}

func isCall(call *ast.CallExpr, pkg, name string) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != name {
		return false
	}
	x, ok := f.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// parse reads the source of the package in a directory, without its tests.
func parse(t *testing.T, dir string) []*ast.File {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), dir+"/"+name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// stringConstants returns the values of the string constants of a package, by name.
func stringConstants(t *testing.T, dir string) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, file := range parse(t, dir) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != len(spec.Names) {
				return true
			}
			for i, name := range spec.Names {
				if lit, ok := spec.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					values[name.Name], _ = strconv.Unquote(lit.Value)
				}
			}
			return true
		})
	}
	return values
}
