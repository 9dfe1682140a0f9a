package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// promtool runs unit tests of expressions with these series and the expected samples of each expression at 10m.
func promtool(t *testing.T, series map[string]string, want map[string][]any) {
	t.Helper()
	var input, tests []any
	for name, values := range series {
		input = append(input, map[string]any{"series": name, "values": values})
	}
	for expr, samples := range want {
		tests = append(tests, map[string]any{"expr": strings.ReplaceAll(expr, "$__rate_interval", "5m"), "eval_time": "10m", "exp_samples": samples})
	}
	text, err := yaml.Marshal(map[string]any{"tests": []any{map[string]any{"interval": "1m", "input_series": input, "promql_expr_test": tests}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tests.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// sample is an expected sample.
func sample(labels string, value float64) []any {
	return []any{map[string]any{"labels": labels, "value": value}}
}

// TestManagers tests that the dashboard of the manager shows each manager of Heighliner, but no other program with the same metrics.
func TestManagers(t *testing.T) {
	t.Parallel()
	exprs, nothing := map[string]string{}, map[string][]any{}
	for _, p := range manager().Panels {
		for _, target := range p.Targets {
			if _, ok := exprs[p.Title]; !ok { // Two panels have the title Memory.
				exprs[p.Title] = target.Expr
			}
			nothing[target.Expr] = nil
		}
	}
	process := func(instance, controller string, into map[string]string) {
		labels := fmt.Sprintf(`controller=%q,result="error",method="GET",code="200",instance=%q`, controller, instance)
		for _, gauge := range []string{"workqueue_depth", "process_resident_memory_bytes", "go_goroutines", "go_memstats_heap_inuse_bytes"} {
			into[gauge+"{"+labels+"}"] = "5x20"
		}
		for _, counter := range []string{"controller_runtime_reconcile_total", "rest_client_requests_total", "process_cpu_seconds_total"} {
			into[counter+"{"+labels+"}"] = "0+60x20"
		}
		into[`controller_runtime_reconcile_time_seconds_bucket{le="1",`+labels+"}"] = "0x20"
		into[`controller_runtime_reconcile_time_seconds_bucket{le="+Inf",`+labels+"}"] = "0+60x20"
	}
	series := map[string]string{}
	process("cert-manager", "certificates", series)
	promtool(t, series, nothing)

	for _, instance := range []string{"a", "b", "c"} {
		process(instance, "microservice", series)
		series[fmt.Sprintf(`heighliner_releases{status="active",instance=%q}`, instance)] = "0x20"
	}
	series[`heighliner_microservices{instance="a"}`] = "0x20"
	want := map[string][]any{
		exprs["Active managers"]:            sample("{}", 1),
		exprs["Failed reconciles"]:          sample("{}", 3),
		exprs["Memory"]:                     sample("{}", 15),
		exprs["Processor"]:                  sample("{}", 3),
		exprs["Reconciles"]:                 sample(`{controller="microservice",result="error"}`, 3),
		exprs["Duration, 99%"]:              sample(`{controller="microservice"}`, 1),
		exprs["Queue"]:                      sample(`{controller="microservice"}`, 15),
		exprs["Requests to the API server"]: sample(`{code="200",method="GET"}`, 3),
	}
	promtool(t, series, want)

	for shard, holder := range []string{"a", "b", "b"} {
		for _, instance := range []string{"a", "b", "c"} {
			series[fmt.Sprintf(`heighliner_shard_held{shard="%d",instance=%q}`, shard, instance)] = map[bool]string{true: "1x20", false: "0x20"}[instance == holder]
		}
	}
	promtool(t, series, map[string][]any{exprs["Active managers"]: sample("{}", 2)})
}
