package view

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// APIVersion is the version of the JSON form.
const APIVersion = "view.hlnr.io/v1"

// The kinds of the JSON form.
const (
	KindBoard    = "Board"
	KindService  = "Service"
	KindAnswer   = "Answer"
	KindHistory  = "History"
	KindPreviews = "Previews"
	KindEvents   = "Events"
	KindRelease  = "Release"
	KindVersions = "Versions"
	KindFreezes  = "Freezes"
)

// Board is the view of all services.
type Board struct {
	metav1.TypeMeta `json:",inline"`
	// Time is the time to which ages and sentences refer.
	Time metav1.Time `json:"time"`
	// Counts contains the number of services in each class.
	Counts Counts `json:"counts"`
	// Freezes are the freezes that apply now, followed by future freezes.
	Freezes []Freeze `json:"freezes,omitempty"`
	// Notifications are the NotificationPolicies that do not deliver all messages.
	Notifications []NotificationProblem `json:"notifications,omitempty"`
	// Services lists the services in this order: services that are waiting for a user, failed services, services
	// with a rollout in progress, and all others. Within each class, services are sorted by name and namespace.
	Services []Service `json:"services"`
}

// NotificationProblem describes why a NotificationPolicy does not deliver all messages.
type NotificationProblem struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Reason and Message come from the Ready condition of the policy. Since is when this condition
	// became False.
	Reason  string       `json:"reason"`
	Message string       `json:"message"`
	Since   *metav1.Time `json:"since,omitempty"`
}

// Counts contains the number of services in each [Class].
type Counts struct {
	Services int `json:"services"`
	Waiting  int `json:"waiting"`
	Failed   int `json:"failed"`
	Moving   int `json:"moving"`
	// Unreconciled is the number of services that the manager has not reconciled yet. Services includes them, and the counts of the
	// classes exclude them.
	Unreconciled int `json:"unreconciled,omitempty"`
}

// Class is the kind of attention that a state needs. Users see states in the order of the classes.
type Class string

// The classes, in their order.
const (
	// Waiting means that a user must decide.
	Waiting Class = "waiting"
	// Failed means that a user must change the specification or the cluster, or push another version.
	Failed Class = "failed"
	// Moving means that the state ends without user action.
	Moving Class = "moving"
	// Stable means that no action is needed.
	Stable Class = "stable"
)

// Service is a Microservice with its releases and hosts.
type Service struct {
	// TypeMeta is set if the service is not part of a Board.
	metav1.TypeMeta `json:",inline"`
	// Time is set if the service is not part of a Board.
	Time      *metav1.Time `json:"time,omitempty"`
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	// State is the state of the group or preview that needs the most attention, or of the service itself.
	State State `json:"state"`
	// Paused reports whether spec.paused prevents releases from starting automatically.
	Paused bool  `json:"paused,omitempty"`
	Pins   []Pin `json:"pins,omitempty"`
	// Freezes are the freezes that apply to the service now. The freeze that ends last comes first.
	Freezes []Freeze `json:"freezes,omitempty"`
	// Groups are the groups that do not belong to pull requests, newest first.
	Groups []Group `json:"groups,omitempty"`
	// Previews are the groups that belong to pull requests, and the pull requests that are waiting for approval, sorted
	// by number in descending order.
	Previews []Group `json:"previews,omitempty"`
	// Followers are the CronJobs that follow the active release of a group, sorted by name.
	Followers []Follower `json:"followers,omitempty"`
	// Problems are conditions that need attention.
	Problems []Problem `json:"problems,omitempty"`
	// Discovery is the result of version discovery. It is nil if the ImagePolicy is not known.
	Discovery *Discovery `json:"discovery,omitempty"`
	// Weights are the weights over time. They are set only on pages of the board, as HTML or JSON. The board records
	// the weights from the time at which it starts.
	Weights []GroupWeights `json:"weights,omitempty"`
}

// Follower is a CronJob that follows the active release of a group.
type Follower struct {
	// Name is the name of the CronJob.
	Name string `json:"name"`
	// Release is the release from which the CronJob gets its image and configuration, or empty if the CronJob has
	// never followed a release. Version is the version of that release, or empty if the release is not known.
	Release string `json:"release,omitempty"`
	Version string `json:"version,omitempty"`
	// Suspended reports whether the CronJob is suspended and therefore starts no Jobs.
	Suspended bool `json:"suspended,omitempty"`
	// Message describes what the CronJob follows or is waiting for, as reported by the manager. It is empty until the
	// manager has handled the CronJob.
	Message string `json:"message,omitempty"`
}

// GroupWeights are the required weights of a group since they were first observed.
type GroupWeights struct {
	Group string `json:"group"`
	// Points are the changes to the weights in chronological order. Each point is valid until the next point. The first
	// point is the start of the observation, or the oldest retained point.
	Points []WeightPoint `json:"points"`
}

// WeightPoint is a change to the weights.
type WeightPoint struct {
	Time   metav1.Time   `json:"time"`
	Shares []WeightShare `json:"shares"`
}

// WeightShare is the weight of a release in percent.
type WeightShare struct {
	Release string `json:"release"`
	Version string `json:"version"`
	Weight  int32  `json:"weight"`
}

// Pin pins a group to a version or a release.
type Pin struct {
	// Group is the name of the group. It is empty if the pin applies to the group that contains
	// the version or the release.
	Group   string       `json:"group,omitempty"`
	Version string       `json:"version,omitempty"`
	Release string       `json:"release,omitempty"`
	Until   *metav1.Time `json:"until,omitempty"`
	Reason  string       `json:"reason,omitempty"`
	// By is the user who set the pin. It is empty if the user is not known.
	By string `json:"by,omitempty"`
}

// Problem is an object's condition that needs attention.
type Problem struct {
	// Object is the object with the condition, as kind/name.
	Object string `json:"object"`
	// Condition is the type of the condition.
	Condition string       `json:"condition,omitempty"`
	Reason    string       `json:"reason"`
	Message   string       `json:"message"`
	Since     *metav1.Time `json:"since,omitempty"`
}

// Group is a release group.
type Group struct {
	Name string `json:"name"`
	Slug string `json:"slug"`
	// Phase is Live, Closing or Expired. It is empty for a pull request without a group.
	Phase string `json:"phase,omitempty"`
	// Active and Canary are versions, and CanaryWeight is the required weight of the canary in percent.
	Active       string `json:"active,omitempty"`
	Canary       string `json:"canary,omitempty"`
	CanaryWeight *int32 `json:"canaryWeight,omitempty"`
	State        State  `json:"state"`
	// Hosts are the hosts that route to the group, or nil if they are not known. Programmed hosts come first.
	Hosts []Host `json:"hosts,omitempty"`
	// Releases are the releases of the group, newest first.
	Releases []Release `json:"releases,omitempty"`
	// PullRequest is the pull request of the preview.
	PullRequest *PullRequest `json:"pullRequest,omitempty"`
}

// PullRequest contains the known fields of a preview's pull request.
type PullRequest struct {
	Number int64  `json:"number"`
	Title  string `json:"title,omitempty"`
	Author string `json:"author,omitempty"`
	Head   string `json:"head,omitempty"`
	Fork   bool   `json:"fork,omitempty"`
	URL    string `json:"url,omitempty"`
	// Pushed is when the head commit was pushed.
	Pushed *metav1.Time `json:"pushed,omitempty"`
	// Closed is when the pull request was closed. Until is the latest time at which the preview ends, or nil if there is no limit.
	Closed *metav1.Time `json:"closed,omitempty"`
	Until  *metav1.Time `json:"until,omitempty"`
}

// Host is a domain of a NetworkPolicy with its current routing.
type Host struct {
	// Policy is the name of the NetworkPolicy.
	Policy string `json:"policy"`
	Host   string `json:"host"`
	Path   string `json:"path,omitempty"`
	URL    string `json:"url,omitempty"`
	// Programmed reports whether every parent has accepted the route as written.
	Programmed bool      `json:"programmed"`
	Backends   []Backend `json:"backends,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Message    string    `json:"message,omitempty"`
}

// Backend is a release behind a host, with its weight in percent.
type Backend struct {
	Release string `json:"release"`
	Version string `json:"version"`
	Weight  int32  `json:"weight"`
}

// Release is a release of a group.
type Release struct {
	// Name is the name of the VersionedMicroservice.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Status is pending, canary, active, error or deprecated.
	Status string `json:"status"`
	// Reason is the reason for the status, and Since is when the status began.
	Reason string       `json:"reason,omitempty"`
	Since  *metav1.Time `json:"since,omitempty"`
	// Created is when the object was created. It is nil if the object does not exist, or if the time is not known.
	Created *metav1.Time `json:"created,omitempty"`
	// FirstActive is when the release became active for the first time. It is nil if the release was never active, or if the time is not known.
	FirstActive *metav1.Time `json:"firstActive,omitempty"`
	State       State        `json:"state"`
	Share       Share        `json:"share"`
	Pods        *Pods        `json:"pods,omitempty"`
	Images      []string     `json:"images,omitempty"`
	// Commit is the commit from which the release was built, if its source contains a commit.
	Commit string `json:"commit,omitempty"`
	// Retained reports whether the release was active and is retained. A rollback to such a release skips the
	// steps.
	Retained bool `json:"retained,omitempty"`
	// Attempts is the number of attempts after the first attempt.
	Attempts int32 `json:"attempts,omitempty"`
	// Failure is the reason why the release is not available, and Message describes it.
	Failure  string    `json:"failure,omitempty"`
	Message  string    `json:"message,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
	// Rollout is the rollout in progress.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Analysis is the analysis of the current or most recent rollout.
	Analysis *Analysis `json:"analysis,omitempty"`
}

// Share is a release's share of its group's traffic, in percent. Unknown values are nil.
type Share struct {
	// Asked is the required weight.
	Asked *int32 `json:"asked,omitempty"`
	// Programmed is the weight that is programmed for all hosts that split the traffic of the group or, if there are no such hosts, for all
	// listeners and user-managed routes that split it. It is nil if their weights differ, if they are not all programmed, or if there are none.
	Programmed *int32 `json:"programmed,omitempty"`
	// Observed is the measured share in Window.
	Observed *float64 `json:"observed,omitempty"`
	Window   string   `json:"window,omitempty"`
	// Since is when the weight became required. It is set only if the weight is not programmed yet or, if no host, listener or route splits
	// the traffic of the group, not confirmed yet.
	Since *metav1.Time `json:"since,omitempty"`
	// Match reports whether the release also gets the requests that canaryMatches select. Mirror is the percentage of requests that are
	// also copied to the release.
	Match  bool  `json:"match,omitempty"`
	Mirror int32 `json:"mirror,omitempty"`
	// Withheld reports whether the release has a weight but gets no traffic, because it has no ready endpoint, or had
	// none and is not available again yet.
	Withheld bool `json:"withheld,omitempty"`
}

// Pods describes the pods of a release.
type Pods struct {
	// Available is the number of available replicas, and Wanted is the required number.
	Available int32 `json:"available"`
	Wanted    int32 `json:"wanted"`
	// Pods are the pods sorted by name, if they were listed.
	Pods []Pod `json:"pods,omitempty"`
}

// Pod is a pod of a release.
type Pod struct {
	Name string `json:"name"`
	// Phase is the phase of the pod, or the reason why a container is waiting or has terminated.
	Phase    string       `json:"phase"`
	Ready    bool         `json:"ready"`
	Restarts int32        `json:"restarts,omitempty"`
	Message  string       `json:"message,omitempty"`
	Since    *metav1.Time `json:"since,omitempty"`
}

// Decision is a user's decision about a release.
type Decision struct {
	Action string      `json:"action"`
	By     string      `json:"by,omitempty"`
	Time   metav1.Time `json:"time"`
	// Reason is the text that the user wrote, if it is still known.
	Reason string `json:"reason,omitempty"`
	// Outcome is Applied, or DecisionNotApplicable with the cause.
	Outcome string `json:"outcome,omitempty"`
}

// Rollout is the progress of a release toward the active status.
type Rollout struct {
	// Step is the current step, counted from 1, and Steps is the number of steps. Step is 0 before the first step.
	Step     int32  `json:"step"`
	Steps    int32  `json:"steps"`
	StepName string `json:"stepName,omitempty"`
	// Started is when the current step began or, before the first step, when the rollout began.
	Started metav1.Time `json:"started"`
	// Checks are the checks of the current step, in the order in which they apply.
	Checks []Check `json:"checks,omitempty"`
	// Next are the weights of the following steps, followed by 100.
	Next []int32 `json:"next,omitempty"`
	// From is the slug of the group from which domains move to this group.
	From string `json:"from,omitempty"`
	// Adoptable reports whether a single user can skip the remaining steps.
	Adoptable bool `json:"adoptable,omitempty"`
}

// Check is a requirement of a step.
type Check struct {
	Name string `json:"name"`
	// Result is passed, waiting or failed.
	Result  CheckResult  `json:"result"`
	Message string       `json:"message"`
	Since   *metav1.Time `json:"since,omitempty"`
}

// CheckResult is the result of a [Check].
type CheckResult string

// The results of a check.
const (
	CheckPassed  CheckResult = "passed"
	CheckWaiting CheckResult = "waiting"
	CheckFailed  CheckResult = "failed"
)

// Analysis is the state of a canary's measurements.
type Analysis struct {
	Step   int32  `json:"step"`
	Phase  string `json:"phase"`
	Rounds int32  `json:"rounds"`
	// Count is the number of passed rounds that a step requires. 0 means unknown.
	Count    int32        `json:"count,omitempty"`
	Failures int32        `json:"failures,omitempty"`
	Message  string       `json:"message,omitempty"`
	Next     *metav1.Time `json:"next,omitempty"`
	// Template is the template that defines the metrics, as KIND/NAME@GENERATION. It is empty if the Microservice defines them.
	Template string   `json:"template,omitempty"`
	Metrics  []Metric `json:"metrics,omitempty"`
}

// Metric is the latest measurement of a metric, and the bounds of the metric.
type Metric struct {
	Name string `json:"name"`
	// Kind is ratio or difference if the metric has a baseline. Otherwise, it is successRate, latency, prometheus or web. It is empty
	// if the metric is not in the specification.
	Kind   string `json:"kind,omitempty"`
	Result string `json:"result"`
	// Value is the value that was compared with the bounds. It is empty if there was no value.
	Value  string   `json:"value,omitempty"`
	Min    *float64 `json:"min,omitempty"`
	Max    *float64 `json:"max,omitempty"`
	DryRun bool     `json:"dryRun,omitempty"`
	// Values contains the values of the latest rounds of the rollout, at most 10, oldest first. It is empty if there are fewer than
	// two values.
	Values []float64 `json:"values,omitempty"`
	// Query is the query of the metric, if a user defined it.
	Query   string `json:"query,omitempty"`
	Message string `json:"message,omitempty"`
}

// Discovery is the discovery result of an ImagePolicy.
type Discovery struct {
	// Policy is the name of the ImagePolicy.
	Policy string `json:"policy"`
	Image  string `json:"image,omitempty"`
	Latest string `json:"latest,omitempty"`
	// Tags is the number of tags that were found by the latest scan that detected a change. Changed is the
	// time of that scan.
	Tags    int32        `json:"tags,omitempty"`
	Changed *metav1.Time `json:"changed,omitempty"`
	// Ready is false, and Reason and Message are set, if no version is offered or the result is not
	// complete.
	Ready   bool   `json:"ready"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Rejected are the newest rejected tags, with their verdicts.
	Rejected []Verdict `json:"rejected,omitempty"`
}

// Verdict describes why a tag is not offered.
type Verdict struct {
	Version string `json:"version"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason,omitempty"`
}
