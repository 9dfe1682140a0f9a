package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	lua "github.com/yuin/gopher-lua"
	"sigs.k8s.io/yaml"
)

// root is the root of the repository, relative to this package.
const root = "../.."

// objects are objects as YAML, by name, with their expected health.
var objects = map[string]struct{ text, argo, flux string }{
	"new":           {`{kind: ImagePolicy, metadata: {generation: 1}}`, "Progressing", "inProgress"},
	"no conditions": {`{kind: ImagePolicy, metadata: {generation: 1}, status: {observedGeneration: 1}}`, "Progressing", "inProgress"},
	"earlier spec":  {`{kind: ImagePolicy, metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [{type: Ready, status: "True", message: m}]}}`, "Progressing", "inProgress"},
	"not ready":     {`{kind: NetworkPolicy, metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [{type: Ready, status: "False", message: m}, {type: Reconciling, status: "True", message: m}]}}`, "Progressing", "inProgress"},
	"ready":         {`{kind: Microservice, metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [{type: Ready, status: "True", message: m}]}}`, "Healthy", "current"},
	"canary":        {`{kind: Microservice, metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [{type: Ready, status: "True", message: m}, {type: Progressing, status: "True", reason: Approval, message: m}]}}`, "Healthy", "current"},
	"stalled":       {`{kind: Microservice, metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [{type: Ready, status: "True", message: m}, {type: Stalled, status: "True", message: m}]}}`, "Degraded", "failed"},
	"failed":        {`{kind: VersionedMicroservice, metadata: {generation: 1}, status: {observedGeneration: 1, release: error, message: m, conditions: [{type: Ready, status: "False", message: m}]}}`, "Degraded", ""},
	"deleted":       {`{kind: Microservice, metadata: {generation: 1, deletionTimestamp: "2030-01-31T12:00:00Z"}, status: {observedGeneration: 1, conditions: [{type: Ready, status: "True", message: m}]}}`, "Progressing", "current"},
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// run runs a script as Argo CD does: with the object in the variable obj, and with the libraries that are
// available to resource scripts.
func run(t *testing.T, script string, obj map[string]any) map[string]any {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	clock := state.NewTable() // From the library os, only date is available.
	clock.RawSetString("date", state.NewFunction(func(l *lua.LState) int { l.Push(lua.LString("20300131T120000Z")); return 1 }))
	state.SetGlobal("os", clock)
	state.SetGlobal("obj", value(state, obj))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	out, ok := back(state.Get(-1)).(map[string]any)
	if !ok {
		t.Fatalf("the script returns %v", state.Get(-1))
	}
	return out
}

func value(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case map[string]any:
		table := l.NewTable()
		for k, x := range v {
			table.RawSetString(k, value(l, x))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, x := range v {
			table.Append(value(l, x))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	}
	return lua.LNil
}

func back(v lua.LValue) any {
	switch v := v.(type) {
	case *lua.LTable:
		if n := v.MaxN(); n > 0 {
			list := make([]any, n)
			for i := range list {
				list[i] = back(v.RawGetInt(i + 1))
			}
			return list
		}
		out := map[string]any{}
		v.ForEach(func(k, x lua.LValue) { out[k.String()] = back(x) })
		return out
	case lua.LString:
		return string(v)
	case lua.LBool:
		return bool(v)
	case lua.LNumber:
		return float64(v)
	}
	return nil
}

// script reads a Lua file below Argo CD's folder.
func script(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, folder, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestArgoCDHealth(t *testing.T) {
	t.Parallel()
	for name, o := range objects {
		got := run(t, script(t, "health.lua"), object(t, o.text))
		if got["status"] != o.argo || got["message"] == nil {
			t.Errorf("%s: got %v, want %s", name, got, o.argo)
		}
	}
}

// TestFluxHealth checks that, for each object with a status, only the expected expression is true.
func TestFluxHealth(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "config/gitops/flux/health.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		HealthCheckExprs []struct{ APIVersion, Kind, InProgress, Failed, Current string }
	}
	if err := yaml.Unmarshal(text, &file); err != nil || len(file.HealthCheckExprs) != 4 {
		t.Fatalf("%d expressions, %v", len(file.HealthCheckExprs), err)
	}
	env, err := cel.NewEnv(cel.Variable("metadata", cel.DynType), cel.Variable("spec", cel.DynType), cel.Variable("status", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	// holds reports whether an expression is true; an error, such as a missing field, counts as false.
	holds := func(expression string, obj map[string]any) bool {
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := program.Eval(obj)
		return err == nil && out.Value() == true
	}
	for _, e := range file.HealthCheckExprs {
		for name, o := range objects {
			if o.flux == "" { // This object is not stored in Git.
				continue
			}
			obj, got := object(t, o.text), []string{}
			for state, expression := range map[string]string{"inProgress": e.InProgress, "failed": e.Failed, "current": e.Current} {
				if holds(expression, obj) {
					got = append(got, state)
				}
			}
			// If an object has no status, Flux cannot evaluate the expressions, and waits.
			if want := o.flux; fmt.Sprint(got) != "["+want+"]" && !(obj["status"] == nil && len(got) == 0) {
				t.Errorf("%s %s: %v, want %s", e.Kind, name, got, want)
			}
		}
	}
}

// TestActions checks which actions are available for an object, and what the actions write.
func TestActions(t *testing.T) {
	t.Parallel()
	const by = `metadata: {annotations: {hlnr.io/decided-by: "system:serviceaccount:argocd:argocd-server"}}`
	decision := func(more string) string {
		return by + `, spec: {decision: {id: argocd-20300131T120000Z, reason: by an action in Argo CD, ` + more + `}}`
	}
	for name, tc := range map[string]struct {
		kind, object string
		offered      string // The names of the actions, sorted.
		action, want string // The action, and the expected change to the object.
	}{
		"waiting canary": {"VersionedMicroservice", `{metadata: {}, spec: {}, status: {release: canary, step: 2/3 Paused}}`, "adopt continue deprecate", "continue", `{` + decision(`action: Continue, step: "2"`) + `, status: {release: canary, step: 2/3 Paused}}`},
		"step 12":        {"VersionedMicroservice", `{metadata: {}, spec: {}, status: {release: canary, step: 12/20 Paused}}`, "adopt continue deprecate", "continue", `{` + decision(`action: Continue, step: "12"`) + `, status: {release: canary, step: 12/20 Paused}}`},
		"abort":          {"VersionedMicroservice", `{metadata: {}, spec: {}, status: {release: canary, step: 1/1}}`, "adopt continue deprecate", "deprecate", `{` + decision(`action: Deprecate`) + `, status: {release: canary, step: 1/1}}`},
		"adopt":          {"VersionedMicroservice", `{metadata: {}, spec: {}, status: {release: pending}}`, "adopt deprecate", "adopt", `{` + decision(`action: Adopt`) + `, status: {release: pending}}`},
		"failed":         {"VersionedMicroservice", `{metadata: {}, spec: {}, status: {release: error}}`, "retry", "retry", `{` + decision(`action: Retry`) + `, status: {release: error}}`},
		"active":         {"VersionedMicroservice", `{metadata: {}, spec: {}, status: {release: active}}`, "", "", ""},
		"service":        {"Microservice", `{metadata: {}, spec: {}}`, "pause", "pause", `{metadata: {}, spec: {paused: true}}`},
		"paused service": {"Microservice", `{metadata: {}, spec: {paused: true}}`, "resume", "resume", `{metadata: {}, spec: {}}`},
		"policy":         {"ImagePolicy", `{metadata: {}}`, "scan", "scan", `{metadata: {annotations: {hlnr.io/requestedAt: 20300131T120000Z}}}`},
		"repository":     {"GitHubRepository", `{metadata: {annotations: {a: b}}}`, "scan", "scan", `{metadata: {annotations: {a: b, hlnr.io/requestedAt: 20300131T120000Z}}}`},
	} {
		offered := []string{}
		for action, settings := range run(t, script(t, "actions/"+tc.kind+"/discovery.lua"), object(t, tc.object)) {
			script(t, "actions/"+tc.kind+"/"+action+".lua")
			if settings.(map[string]any)["disabled"] == false {
				offered = append(offered, action)
			}
		}
		for _, want := range strings.Fields(tc.offered) {
			if !strings.Contains(fmt.Sprint(offered), want) {
				t.Errorf("%s: %v is offered, want %s", name, offered, want)
			}
		}
		if len(offered) != len(strings.Fields(tc.offered)) {
			t.Errorf("%s: %v is offered, want %s", name, offered, tc.offered)
		}
		if tc.action == "" {
			continue
		}
		if got, want := run(t, script(t, "actions/"+tc.kind+"/"+tc.action+".lua"), object(t, tc.object)), object(t, tc.want); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got\n%v, want\n%v", name, got, want)
		}
	}
}

// TestConfigMap checks that the ConfigMap contains the current files.
func TestConfigMap(t *testing.T) {
	t.Parallel()
	want, err := configMap(root)
	if err != nil {
		t.Fatal(err)
	}
	if got := script(t, "argocd-cm.yaml"); got != string(want) {
		t.Error("config/gitops/argocd/argocd-cm.yaml is not up to date: run make gitops")
	}
}
