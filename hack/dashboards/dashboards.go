package main

import (
	"fmt"
	"strings"
)

// dashboards returns all dashboards, by file name.
func dashboards() map[string]dashboard {
	return map[string]dashboard{"fleet": fleet(), "service": service(), "discovery": discovery(), "manager": manager()}
}

// groups is an expression that counts groups by state, without duplicates even if several managers are
// scraped.
const groups = `max by (state) (heighliner_groups)`

// inStates returns an expression that counts the groups in the given states.
func inStates(states string) string {
	return fmt.Sprintf(`sum(max by (state) (heighliner_groups{state=~"%s"}))`, states)
}

// ours restricts an expression to the managers of Heighliner: Prometheus may scrape other programs that have the same metrics.
func ours(expr string) string {
	return expr + ` * on (instance) group_left () max by (instance) (heighliner_releases{status="active"} >= bool 0)`
}

// rate returns an expression for the rate of a counter of the managers.
func rate(counter string) string {
	expr := "rate(" + counter + "[$__rate_interval])"
	if strings.HasPrefix(counter, "heighliner_") {
		return expr
	}
	return ours(expr)
}

// rateOf returns an expression for the rate of a counter by labels.
func rateOf(counter, by string) string {
	return fmt.Sprintf("sum by (%s) (%s)", by, rate(counter))
}

// quantile returns an expression for a quantile of a histogram.
func quantile(q float64, histogram, by string) string {
	if by != "" {
		by = ", " + by
	}
	return fmt.Sprintf("histogram_quantile(%g, sum by (le%s) (%s))", q, by, rate(histogram+"_bucket"))
}

// mean returns an expression for the mean of a summary over a window, for the services that match a selector.
func mean(summary, selector, window string) string {
	return fmt.Sprintf("sum(increase(%[1]s_sum%[2]s[%[3]s])) / sum(increase(%[1]s_count%[2]s[%[3]s]))", summary, selector, window)
}

// dora returns panels with the four DORA metrics for the services that match a selector, such as
// {namespace="shop"}.
func dora(selector, more string) []panel {
	failed := fmt.Sprintf(`sum(increase(heighliner_service_rollouts_total{%[1]sresult!="Promoted"}[30d])) / sum(increase(heighliner_service_rollouts_total{%[1]sresult!="RolledBack"}[30d]))`, more)
	return []panel{
		stat("Deployments in 30 days", "none", "sum(increase(heighliner_group_deployments_total"+selector+"[30d]))").wide(6),
		stat("Lead time, mean of 30 days", "s", mean("heighliner_service_lead_time_seconds", selector, "30d")).wide(6).about("From the publication of a version, or the creation of its release, until it is active."),
		stat("Failed share in 30 days", "percentunit", failed).wide(6).about("Share of the rollouts that failed, were aborted or were rolled back."),
		stat("Time to restore, mean of 30 days", "s", mean("heighliner_service_restore_seconds", selector, "30d")).wide(6).about("How long failed releases had traffic."),
	}
}

// fleet returns the dashboard of all services.
func fleet() dashboard {
	panels := []panel{
		stat("Microservices", "none", "max(heighliner_microservices)"),
		stat("Canaries and rollouts", "none", inStates("Starting|Progressing|Pause|Approval|Analysis|Inconclusive|NoTraffic|Programming|Interrupted|Blocked|RetryTime|Gate|Together|TogetherHeld|Window|Paused")),
		stat("Waiting for a user", "none", inStates("Approval|Inconclusive|TogetherHeld|Paused")),
		stat("Failed", "none", inStates("Failed|RolledBack")),
		stat("Blocked", "none", inStates("Blocked|Interrupted|RetryTime")),
		stat("Not available", "none", inStates("Unavailable")),
		row("Delivery"),
	}
	panels = append(panels, dora("", "")...)
	panels = append(panels,
		series("Rollouts in a day, by result", "none", query{"{{result}}", "sum by (result) (increase(heighliner_service_rollouts_total[1d]))"}),
		series("Groups by state", "none", query{"{{state}}", groups + " > 0"}),
		row("Rollouts in progress"),
		table("Weight of canaries in percent", "percent", "max by (namespace, microservice, group) (heighliner_group_canary_weight_percent)").wide(12),
		table("Time in the current state, the longest first", "s", `sort_desc((time() - max by (namespace, microservice, group) (heighliner_group_state_since_timestamp_seconds)) * on (namespace, microservice, group) group_left (state) max by (namespace, microservice, group, state) (heighliner_group_state{state!~"Active|Pinned|Expired"}))`).wide(12),
		series("Time spent waiting at gates", "s", query{"{{gate}}", "sum by (gate) (increase(heighliner_service_gate_seconds_total[$__rate_interval]))"}),
		series("From creation to active", "s", query{"median", quantile(.5, "heighliner_release_promotion_seconds", "")}, query{"90%", quantile(.9, "heighliner_release_promotion_seconds", "")}),
		series("Age of the active versions", "s", query{"{{namespace}}/{{microservice}} {{group}}", "topk(10, time() - max by (namespace, microservice, group) (heighliner_group_active_since_timestamp_seconds))"}),
		series("Policies with a condition that is not True", "none", query{"{{kind}} {{condition}}", `sum by (kind, condition) (max by (kind, condition, status) (heighliner_policy_conditions{status!="True"}))`}),
	)
	return newDashboard("fleet", "Fleet", "All services: rollouts in progress, blocked rollouts, and delivery metrics.", nil, panels...)
}

// service returns the dashboard of one service.
func service() dashboard {
	const chosen = `{namespace="$namespace",microservice="$microservice"}`
	const more = `namespace="$namespace",microservice="$microservice",`
	panels := []panel{
		table("State of each group, in seconds since it began", "s", `(time() - max by (group) (heighliner_group_state_since_timestamp_seconds`+chosen+`)) * on (group) group_left (state) max by (group, state) (heighliner_group_state`+chosen+`)`).wide(12),
		table("Versions", "none", "max by (group, status, version) (heighliner_group_version"+chosen+")").wide(12),
		row("Delivery"),
	}
	panels = append(panels, dora(chosen, more)...)
	panels = append(panels,
		row("Rollouts"),
		series("Weight of the canary in percent", "percent", query{"{{group}}", "max by (group) (heighliner_group_canary_weight_percent" + chosen + ")"}),
		series("Step", "none", query{"{{group}}", "max by (group) (heighliner_group_canary_step" + chosen + ")"}, query{"{{group}} of", "max by (group) (heighliner_group_canary_steps" + chosen + ")"}),
		series("Time spent waiting at gates", "s", query{"{{gate}}", "sum by (gate) (increase(heighliner_service_gate_seconds_total" + chosen + "[$__rate_interval]))"}),
		series("Rollouts in a day, by result", "none", query{"{{result}}", "sum by (result) (increase(heighliner_service_rollouts_total" + chosen + "[1d]))"}),
		series("Age of the active version", "s", query{"{{group}}", "time() - max by (group) (heighliner_group_active_since_timestamp_seconds" + chosen + ")"}),
		series("Last lead time", "s", query{"{{group}} since {{from}}", "max by (group, from) (heighliner_group_last_lead_time_seconds" + chosen + ")"}),
		table("ImagePolicy and NetworkPolicy of the same name: 1 while the condition is True", "none", `max by (kind, condition, reason) (heighliner_policy_condition{namespace="$namespace",name="$microservice"})`),
	)
	return newDashboard("service", "Service", "One service: its groups, canaries, gates and delivery.", []variable{
		choice("namespace", "Namespace", "heighliner_group_state"), choice("microservice", "Microservice", `heighliner_group_state{namespace="$namespace"}`),
	}, panels...)
}

// discovery returns the dashboard of registries and GitHub.
func discovery() dashboard {
	return newDashboard("discovery", "Discovery", "How versions are found: registries, GitHub, webhooks.", nil,
		stat("ImagePolicies", "none", `sum(max by (status) (heighliner_policy_conditions{kind="ImagePolicy",condition="Ready"}))`),
		stat("Source not reachable", "none", `sum(max by (status) (heighliner_policy_conditions{kind="ImagePolicy",condition="SourceReachable",status!="True"}))`),
		stat("Waiting scans", "none", `sum(heighliner_registry_scans{state="Waiting"})`),
		stat("Failed calls in an hour", "percentunit", failedShare("1h")),
		stat("GitHub: remaining requests", "none", "min(heighliner_github_rate_limit_remaining)"),
		stat("GitHub: paused credentials", "none", "sum(heighliner_github_paused_credentials)"),
		row("Registries"),
		series("Requests by operation", "reqps", query{"{{operation}}", rateOf("heighliner_registry_lookups_total", "operation")}),
		series("Requests by result", "reqps", query{"{{result}}", rateOf("heighliner_registry_lookups_total", "result")}),
		series("Duration of scans", "s", query{"median", quantile(.5, "heighliner_scan_duration_seconds", "")}, query{"99%", quantile(.99, "heighliner_scan_duration_seconds", "")}),
		series("Scans", "none", query{"{{state}}", "sum by (state) (heighliner_registry_scans)"}),
		table("ImagePolicies whose source is not reachable", "none", `max by (namespace, name, reason) (heighliner_policy_condition{kind="ImagePolicy",condition="SourceReachable"}) == 0`),
		row("GitHub"),
		series("Requests by status code", "reqps", query{"{{code}}", rateOf("heighliner_github_requests_total", "code")}),
		series("Reads by operation and result", "reqps", query{"{{operation}} {{result}}", rateOf("heighliner_github_reads_total", "operation, result")}),
		series("Requests remaining in this hour", "none", query{"{{host}}", "min by (host) (heighliner_github_rate_limit_remaining)"}),
		series("Duration of polls", "s", query{"median", quantile(.5, "heighliner_github_poll_duration_seconds", "")}, query{"99%", quantile(.99, "heighliner_github_poll_duration_seconds", "")}),
		series("Polls", "none", query{"{{state}}", "sum by (state) (heighliner_github_polls)"}),
		series("Webhooks by result", "reqps", query{"{{result}}", rateOf("heighliner_webhook_total", "result")}),
	)
}

// manager returns the dashboard of the manager's process and its calls.
func manager() dashboard {
	return newDashboard("manager", "Manager", "The manager: reconciles, calls, and resources.", nil,
		stat("Active managers", "none", "count(max by (instance) (heighliner_shard_held) == 1) or count(heighliner_microservices)"),
		stat("Metrics by name", "none", "max(heighliner_service_metrics_enabled)").about("1 while there are series by namespace, Microservice and group."),
		stat("Microservices as a share of the limit", "percentunit", "max(heighliner_microservices) / max(heighliner_service_metrics_limit)"),
		stat("Failed reconciles", "reqps", "sum("+rate(`controller_runtime_reconcile_total{result="error"}`)+")"),
		stat("Memory", "bytes", "sum("+ours("process_resident_memory_bytes")+")").about("All managers, including those that wait for a Lease."),
		stat("Processor", "none", "sum("+rate("process_cpu_seconds_total")+")"),
		row("Reconciles"),
		series("Reconciles", "reqps", query{"{{controller}} {{result}}", rateOf("controller_runtime_reconcile_total", "controller, result") + " > 0"}),
		series("Duration, 99%", "s", query{"{{controller}}", quantile(.99, "controller_runtime_reconcile_time_seconds", "controller")}),
		series("Queue", "none", query{"{{controller}}", "sum by (controller) (" + ours("workqueue_depth") + ")"}),
		series("Requests to the API server", "reqps", query{"{{method}} {{code}}", rateOf("rest_client_requests_total", "method, code")}),
		row("Releases"),
		series("Events of releases", "none", query{"{{reason}}", "sum by (reason) (increase(heighliner_release_events_total[$__rate_interval]))"}),
		series("Releases by status", "none", query{"{{status}}", "max by (status) (heighliner_releases)"}),
		series("Time from writing a route until it is programmed", "s", query{"median, {{confirm}}", quantile(.5, "heighliner_route_confirmation_seconds", "confirm")}, query{"99%, {{confirm}}", quantile(.99, "heighliner_route_confirmation_seconds", "confirm")}),
		series("Probes of gateways", "reqps", query{"{{result}}", rateOf("heighliner_gateway_probes_total", "result")}),
		row("Analyses and hooks"),
		series("Queries by result", "reqps", query{"{{provider}} {{result}}", rateOf("heighliner_analysis_queries_total", "provider, result")}),
		series("Duration of queries, 99%", "s", query{"{{provider}}", quantile(.99, "heighliner_analysis_query_duration_seconds", "provider")}),
		series("Hooks by result", "reqps", query{"{{type}} {{result}}", rateOf("heighliner_hook_calls_total", "type, result")}),
		series("Duration of hooks, 99%", "s", query{"hooks", quantile(.99, "heighliner_hook_call_duration_seconds", "")}),
		row("Process"),
		series("Memory", "bytes", query{"{{instance}} resident", ours("process_resident_memory_bytes")}, query{"{{instance}} heap", ours("go_memstats_heap_inuse_bytes")}),
		series("Goroutines", "none", query{"{{instance}}", ours("go_goroutines")}),
	)
}
