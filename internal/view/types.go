package view

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// APIVersion of the JSON form.
const APIVersion = "view.hlnr.io/v1"

// Kinds of the JSON form.
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
	// Time at which ages and sentences are valid.
	Time metav1.Time `json:"time"`
	// Counts of services by class.
	Counts Counts `json:"counts"`
	// Freezes that apply now, followed by future ones.
	Freezes []Freeze `json:"freezes,omitempty"`
	// Notifications are the NotificationPolicies that do not deliver all messages.
	Notifications []NotificationProblem `json:"notifications,omitempty"`
	// Services: those that wait for a user first, then failed ones, then those with a rollout in
	// progress, then the others; each by name and namespace.
	Services []Service `json:"services"`
}

// NotificationProblem describes why a NotificationPolicy does not deliver all messages.
type NotificationProblem struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Reason and Message of its condition Ready, which has been False since Since.
	Reason  string       `json:"reason"`
	Message string       `json:"message"`
	Since   *metav1.Time `json:"since,omitempty"`
}

// Counts of services by [Class].
type Counts struct {
	Services int `json:"services"`
	Waiting  int `json:"waiting"`
	Failed   int `json:"failed"`
	Moving   int `json:"moving"`
	// Unreconciled services are those that the manager has not seen yet; they are in none of the other counts.
	Unreconciled int `json:"unreconciled,omitempty"`
}

// Class is the kind of attention that a state needs, in the order in which users see it.
type Class string

// The classes, in their order.
const (
	// Waiting needs a decision of a user.
	Waiting Class = "waiting"
	// Failed needs a change: of the specification, of the cluster, or another version.
	Failed Class = "failed"
	// Moving ends without a user's action.
	Moving Class = "moving"
	// Stable needs nothing.
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
	// State of the group or preview that needs most attention, or of the service itself.
	State State `json:"state"`
	// Paused: spec.paused prevents releases from starting automatically.
	Paused bool  `json:"paused,omitempty"`
	Pins   []Pin `json:"pins,omitempty"`
	// Freezes that apply to the service now, the one that ends last first.
	Freezes []Freeze `json:"freezes,omitempty"`
	// Groups that are not pull requests, newest first.
	Groups []Group `json:"groups,omitempty"`
	// Previews are the groups that are pull requests, the highest number first, and pull requests
	// that wait for an approval.
	Previews []Group `json:"previews,omitempty"`
	// Followers are the CronJobs that follow the active release of a group, by name.
	Followers []Follower `json:"followers,omitempty"`
	// Problems are conditions that need attention.
	Problems []Problem `json:"problems,omitempty"`
	// Discovery of versions; nil if the ImagePolicy is not known.
	Discovery *Discovery `json:"discovery,omitempty"`
	// Weights over time, only on the page of the board, which records them since its start.
	Weights []GroupWeights `json:"weights,omitempty"`
}

// Follower is a CronJob that follows the active release of a group.
type Follower struct {
	// Name of the CronJob.
	Name string `json:"name"`
	// Release whose image and configuration it has; "" if it never followed one. Version is its version; "" if the release is not known.
	Release string `json:"release,omitempty"`
	Version string `json:"version,omitempty"`
	// Suspended: it starts no Jobs.
	Suspended bool `json:"suspended,omitempty"`
	// Message is what it follows, or waits for, in the words of the manager; "" before the manager has handled it.
	Message string `json:"message,omitempty"`
}

// GroupWeights are the required weights of a group since they were first observed.
type GroupWeights struct {
	Group string `json:"group"`
	// Points in chronological order; each is valid until the next one. The first one is the start of the observation,
	// or the oldest retained one.
	Points []WeightPoint `json:"points"`
}

// WeightPoint is a change of weights.
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

// Pin of a group to a version.
type Pin struct {
	// Group by name; empty for the group that has the version.
	Group   string       `json:"group,omitempty"`
	Version string       `json:"version,omitempty"`
	Release string       `json:"release,omitempty"`
	Until   *metav1.Time `json:"until,omitempty"`
	Reason  string       `json:"reason,omitempty"`
	// By is the user who set the pin; empty if it has no author.
	By string `json:"by,omitempty"`
}

// Problem is a condition of an object that needs attention.
type Problem struct {
	// Object that has the condition, as kind/name.
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
	// Phase: Live, Closing or Expired; empty for a pull request without a group.
	Phase string `json:"phase,omitempty"`
	// Active and Canary are versions, and CanaryWeight is the required weight of the canary in percent.
	Active       string `json:"active,omitempty"`
	Canary       string `json:"canary,omitempty"`
	CanaryWeight *int32 `json:"canaryWeight,omitempty"`
	State        State  `json:"state"`
	// Hosts that route to the group, those that are programmed first, or nil if not known.
	Hosts []Host `json:"hosts,omitempty"`
	// Releases, newest first.
	Releases []Release `json:"releases,omitempty"`
	// PullRequest of the preview.
	PullRequest *PullRequest `json:"pullRequest,omitempty"`
}

// PullRequest of a preview, as far as known.
type PullRequest struct {
	Number int64  `json:"number"`
	Title  string `json:"title,omitempty"`
	Author string `json:"author,omitempty"`
	Head   string `json:"head,omitempty"`
	Fork   bool   `json:"fork,omitempty"`
	URL    string `json:"url,omitempty"`
	// Pushed is when the head commit was pushed.
	Pushed *metav1.Time `json:"pushed,omitempty"`
	// Closed is when the pull request was closed; the group stays until Until.
	Closed *metav1.Time `json:"closed,omitempty"`
	Until  *metav1.Time `json:"until,omitempty"`
}

// Host is a domain of a NetworkPolicy, as currently routed.
type Host struct {
	// Policy is the NetworkPolicy.
	Policy string `json:"policy"`
	Host   string `json:"host"`
	Path   string `json:"path,omitempty"`
	URL    string `json:"url,omitempty"`
	// Programmed: every parent has accepted the route as written.
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
	// Name of the VersionedMicroservice.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Status: pending, canary, active, error or deprecated.
	Status string `json:"status"`
	// Reason of the status, and Since when the status began.
	Reason string       `json:"reason,omitempty"`
	Since  *metav1.Time `json:"since,omitempty"`
	// Created is when the object was created; nil if it does not exist, or this is not known.
	Created *metav1.Time `json:"created,omitempty"`
	// FirstActive is when it became active for the first time; nil if it was never active, or if that is not known.
	FirstActive *metav1.Time `json:"firstActive,omitempty"`
	State       State        `json:"state"`
	Share       Share        `json:"share"`
	Pods        *Pods        `json:"pods,omitempty"`
	Images      []string     `json:"images,omitempty"`
	// Commit that the release was built from, if its source names one.
	Commit string `json:"commit,omitempty"`
	// Retained: the release was active, and a rollback to it needs no steps.
	Retained bool `json:"retained,omitempty"`
	// Attempts after the first one.
	Attempts int32 `json:"attempts,omitempty"`
	// Failure is why the release is not available, with a message.
	Failure  string    `json:"failure,omitempty"`
	Message  string    `json:"message,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
	// Rollout in progress.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Analysis of the rollout, or of the last one.
	Analysis *Analysis `json:"analysis,omitempty"`
}

// Share of the traffic of the group in percent. Unknown values are nil.
type Share struct {
	// Asked is the required weight.
	Asked *int32 `json:"asked,omitempty"`
	// Programmed is the weight at all hosts of the group, as accepted by their parents.
	Programmed *int32 `json:"programmed,omitempty"`
	// Observed is the measured share in Window.
	Observed *float64 `json:"observed,omitempty"`
	Window   string   `json:"window,omitempty"`
	// Since is when the weight was required, if it is not programmed yet.
	Since *metav1.Time `json:"since,omitempty"`
	// Match: the release also gets the requests that canaryMatches select. Mirror: the release also gets copies of
	// this percentage of the requests.
	Match  bool  `json:"match,omitempty"`
	Mirror int32 `json:"mirror,omitempty"`
	// Withheld: the release has a weight but no ready endpoint, and gets no traffic.
	Withheld bool `json:"withheld,omitempty"`
}

// Pods of a release.
type Pods struct {
	// Available replicas out of Wanted.
	Available int32 `json:"available"`
	Wanted    int32 `json:"wanted"`
	// Pods by name, if they were listed.
	Pods []Pod `json:"pods,omitempty"`
}

// Pod of a release.
type Pod struct {
	Name string `json:"name"`
	// Phase of the pod, or the reason why a container waits or terminated.
	Phase    string       `json:"phase"`
	Ready    bool         `json:"ready"`
	Restarts int32        `json:"restarts,omitempty"`
	Message  string       `json:"message,omitempty"`
	Since    *metav1.Time `json:"since,omitempty"`
}

// Decision of a user about a release.
type Decision struct {
	Action string      `json:"action"`
	By     string      `json:"by,omitempty"`
	Time   metav1.Time `json:"time"`
	// Reason is what the user wrote, if it is still known.
	Reason string `json:"reason,omitempty"`
	// Outcome: Applied, or DecisionNotApplicable with the cause.
	Outcome string `json:"outcome,omitempty"`
}

// Rollout is the progress of a release to active.
type Rollout struct {
	// Step from 1 of Steps; 0 before the first one.
	Step     int32  `json:"step"`
	Steps    int32  `json:"steps"`
	StepName string `json:"stepName,omitempty"`
	// Started is when the step, or the rollout before its first step, began.
	Started metav1.Time `json:"started"`
	// Checks of the current step, in the order in which they apply.
	Checks []Check `json:"checks,omitempty"`
	// Next are the weights of the steps that follow, and 100 at the end.
	Next []int32 `json:"next,omitempty"`
	// From is the slug of the group from which domains move to this one.
	From string `json:"from,omitempty"`
	// Adoptable: one user can skip the remaining steps.
	Adoptable bool `json:"adoptable,omitempty"`
}

// Check is a requirement of a step.
type Check struct {
	Name string `json:"name"`
	// Result: passed, waiting or failed.
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

// Analysis is the state of the measurements of a canary.
type Analysis struct {
	Step   int32  `json:"step"`
	Phase  string `json:"phase"`
	Rounds int32  `json:"rounds"`
	// Count is the number of passed rounds that a step needs, or 0 if not known.
	Count    int32        `json:"count,omitempty"`
	Failures int32        `json:"failures,omitempty"`
	Message  string       `json:"message,omitempty"`
	Next     *metav1.Time `json:"next,omitempty"`
	// Template that defines the metrics, as KIND/NAME@GENERATION; empty if the Microservice defines them.
	Template string   `json:"template,omitempty"`
	Metrics  []Metric `json:"metrics,omitempty"`
}

// Metric is the last measurement of a metric with its bounds.
type Metric struct {
	Name string `json:"name"`
	// Kind: successRate, latency, prometheus or web; empty if it is not in the specification.
	Kind   string `json:"kind,omitempty"`
	Result string `json:"result"`
	// Value that was compared; empty if there was none.
	Value  string   `json:"value,omitempty"`
	Min    *float64 `json:"min,omitempty"`
	Max    *float64 `json:"max,omitempty"`
	DryRun bool     `json:"dryRun,omitempty"`
	// Values of the rollout's last rounds, the oldest first; empty if there are fewer than two. At most
	// 10.
	Values []float64 `json:"values,omitempty"`
	// Query of the metric, if it is the user's own.
	Query   string `json:"query,omitempty"`
	Message string `json:"message,omitempty"`
}

// Discovery is the result of an ImagePolicy's discovery.
type Discovery struct {
	// Policy is the name of the ImagePolicy.
	Policy string `json:"policy"`
	Image  string `json:"image,omitempty"`
	Latest string `json:"latest,omitempty"`
	// Tags read by the last scan that found a change, and when that was.
	Tags    int32        `json:"tags,omitempty"`
	Changed *metav1.Time `json:"changed,omitempty"`
	// Ready is False with Reason and Message if no version is offered, or the result is not complete.
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
