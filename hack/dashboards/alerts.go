package main

import (
	"bytes"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// runbooks is the URL of the folder with the runbooks of the alerts.
const runbooks = "https://github.com/heighliner/heighliner/blob/main/docs/how-to/runbooks/"

// ruleGroup is a group of Prometheus rules.
type ruleGroup struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

// rule is an alert.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// subject names the release group that an alert is about. The name comes from the labels of the alert if metrics by name
// are reported.
const subject = `{{ with $labels.microservice }}Group {{ $labels.group }} of {{ $labels.namespace }}/{{ . }}{{ else }}A release group{{ end }}`

// alert returns an alert whose runbook is the given page.
func alert(name, page, severity, wait, summary, description string, expr ...string) rule {
	return rule{
		Alert: name, Expr: strings.Join(expr, "\n"), For: wait, Labels: map[string]string{"severity": severity},
		Annotations: map[string]string{"summary": summary, "description": description, "runbook_url": runbooks + page + ".md"},
	}
}

// inState returns the lines of an expression that is true for groups that have been in one of the given states for more than the
// given number of seconds. The expression has one result for each group or, if metrics by name are not reported, for each state.
func inState(states string, seconds int) []string {
	return []string{
		fmt.Sprintf(`((time() - max by (namespace, microservice, group) (heighliner_group_state_since_timestamp_seconds)) > %d)`, seconds),
		fmt.Sprintf(`* on (namespace, microservice, group) group_left (state) max by (namespace, microservice, group, state) (heighliner_group_state{state=~"%s"})`, states),
		fmt.Sprintf(`or ((time() - min by (state) (heighliner_groups_oldest_timestamp_seconds{state=~"%s"})) > %d unless on () (max(heighliner_service_metrics_enabled) == 1))`, states, seconds),
	}
}

// inCondition returns the lines of an expression that is true for ImagePolicies or NetworkPolicies whose given condition is False or
// Unknown. The expression has one result for each object or, if metrics by name are not reported, one result for all objects. The results
// do not contain the reason of the condition: an alert for another reason would wait again before it fires.
func inCondition(kind, condition string) []string {
	return []string{
		fmt.Sprintf(`max by (namespace, name) (heighliner_policy_condition{kind="%s",condition="%s"}) == 0`, kind, condition),
		fmt.Sprintf(`or (sum by (kind) (max by (kind, condition, status) (heighliner_policy_conditions{kind="%s",condition="%s",status!="True"})) > 0 unless on () (max(heighliner_service_metrics_enabled) == 1))`, kind, condition),
	}
}

// object describes the object that an alert is about: its kind and name, or the number of objects.
func object(kind string) string {
	return `{{ with $labels.name }}` + kind + ` {{ $labels.namespace }}/{{ . }}{{ else }}{{ $value }} ` + kind + ` objects{{ end }}`
}

// calls are counters of calls to registries, GitHub and metrics providers: all calls, and the calls without a usable response.
// Responses that require user action, such as a missing tag or rejected credentials, do not count, because the status of an
// object reports them.
var calls = []struct{ all, failed string }{
	{`heighliner_registry_lookups_total`, `heighliner_registry_lookups_total{result=~"Unreachable|RateLimited|Malformed|Failed"}`},
	{`heighliner_github_requests_total`, `heighliner_github_requests_total{code=~"none|429|5.."}`},
	{`heighliner_analysis_queries_total`, `heighliner_analysis_queries_total{result=~"Timeout|Throttled|Unreachable|ServerError|BadAnswer"}`},
}

// failedShare returns an expression for the share of calls without a usable response among all
// calls in a window.
func failedShare(window string) string {
	sum := func(pick func(all, failed string) string) string {
		var terms []string
		for _, c := range calls {
			terms = append(terms, fmt.Sprintf("(sum(rate(%s[%s])) or vector(0))", pick(c.all, c.failed), window))
		}
		return "(" + strings.Join(terms, " + ") + ")"
	}
	return sum(func(_, failed string) string { return failed }) + " / " + sum(func(all, _ string) string { return all })
}

// burnt returns an expression that compares the share of failed calls with a budget of 1%. The expression is true while the
// share of failed calls exceeds the given multiple of the budget in both a long and a short window.
func burnt(times float64, long, short string) string {
	return fmt.Sprintf("%s > %g\nand %s > %g", failedShare(long), times*0.01, failedShare(short), times*0.01)
}

// alerts returns all alerts.
func alerts() []ruleGroup {
	return []ruleGroup{{Name: "heighliner", Rules: []rule{
		alert("HeighlinerDown", "manager-down", "critical", "10m",
			"Prometheus does not scrape any Heighliner manager.",
			"Applications keep running. If no manager is running, no new version starts, no canary continues or is analyzed, and no route is corrected.",
			`absent(heighliner_microservices)`),
		alert("HeighlinerShardNotHeld", "manager-down", "critical", "10m",
			"No Heighliner manager holds shard {{ $labels.shard }}.",
			"Applications in the namespaces of the shard keep running. No new version starts there, no canary continues or is analyzed, and no route is corrected.",
			`max by (shard) (heighliner_shard_held) == 0`),
		alert("HeighlinerCanaryStuck", "canary-stuck", "warning", "5m",
			subject+" has been in state {{ $labels.state }} for more than 30 minutes.",
			"An active release keeps its traffic. hlnr why shows what blocks the rollout.",
			inState("Blocked|Interrupted|NoTraffic|RetryTime|Starting", 1800)...),
		alert("HeighlinerApprovalWaiting", "approval-waiting", "info", "5m",
			subject+" has waited for a decision for more than 4 hours: {{ $labels.state }}.",
			"The canary keeps its weight until a user or the server of a hook decides.",
			inState("Approval|Inconclusive|TogetherHeld|Gate", 4*3600)...),
		alert("HeighlinerGatewayNotConfirming", "gateway-not-confirming", "warning", "2m",
			subject+" has waited for a gateway to program its weight for more than 5 minutes.",
			"The canary does not continue. When its progress deadline expires, it loses its traffic, and later restarts at the first step.",
			inState("Programming", 300)...),
		alert("HeighlinerRoutesNotProgrammed", "gateway-not-confirming", "warning", "15m",
			object("NetworkPolicy")+": some of the routes are not programmed, or have no ready endpoint.",
			"Hosts without a programmed route are not served; other hosts keep their previous routes.",
			inCondition("NetworkPolicy", "Programmed")...),
		alert("HeighlinerDiscoveryFailing", "discovery-failing", "warning", "15m",
			object("ImagePolicy")+" cannot read the source of versions.",
			"Offered versions remain offered. New versions are not discovered.",
			inCondition("ImagePolicy", "SourceReachable")...),
		alert("HeighlinerReleaseFailed", "release-failed", "warning", "",
			"{{ with $labels.microservice }}A release of {{ $labels.namespace }}/{{ . }}{{ else }}A release{{ end }} failed.",
			"A previous release, if there is one, keeps serving. hlnr status --only failed shows the failures of all services.",
			`sum by (namespace, microservice) (increase(heighliner_service_rollouts_total{result="Failed"}[15m])) > 0`,
			`or (max(delta(heighliner_releases{status="error"}[15m])) > 0 unless on () (max(heighliner_service_metrics_enabled) == 1))`),
		alert("HeighlinerCertificateExpiring", "certificate-expiring", "warning", "1h",
			"A certificate of a NetworkPolicy expires in less than 14 days.",
			"By default, cert-manager renews a 90-day certificate 30 days before it expires: unless the certificate is valid for a few weeks only, check why it was not renewed.",
			`min(heighliner_certificates_earliest_expiry_timestamp_seconds) - time() < 14 * 86400`),
		alert("HeighlinerOutboundErrorBudget", "outbound-error-budget", "warning", "",
			"{{ $value | humanizePercentage }} of the calls to registries, GitHub and metrics providers fail.",
			"At this rate, the error budget of 1% in 30 days is used up in days or hours.",
			"("+burnt(14.4, "1h", "5m")+")", "or ("+burnt(6, "6h", "30m")+")"),
		alert("HeighlinerServiceMetricsOff", "service-metrics-off", "info", "1h",
			"There are more Microservices than --service-metrics-limit: metrics by name are not reported.",
			"Alerts do not contain the name of a service, and the dashboard of a service is empty.",
			`max(heighliner_service_metrics_enabled) == 0 and max(heighliner_service_metrics_limit) > 0`),
	}}}
}

// generated is the first line of each generated file whose format has comments.
const generated = "# Written by hack/dashboards: make dashboards.\n"

// ruleFile returns the alerts as a Prometheus rules file.
func ruleFile() []byte {
	return document(map[string]any{"groups": alerts()})
}

// prometheusRule returns the alerts as an object of the Prometheus operator.
func prometheusRule() []byte {
	return document(map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
		"metadata": map[string]any{"name": "heighliner", "namespace": "heighliner-system", "labels": map[string]string{"app.kubernetes.io/name": "heighliner"}},
		"spec":     map[string]any{"groups": alerts()},
	})
}

// document returns a value as YAML.
func document(v any) []byte {
	out, err := yaml.Marshal(v)
	if err != nil {
		panic(err) // This cannot happen, because the types are plain.
	}
	return append(bytes.NewBufferString(generated).Bytes(), out...)
}
