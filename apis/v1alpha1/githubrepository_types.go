package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GitHubRepositorySpec names a repository, and what may be read and written there.
// +kubebuilder:validation:XValidation:rule="has(self.baseURL) == has(oldSelf.baseURL) && (!has(self.baseURL) || self.baseURL == oldSelf.baseURL)",message="spec.baseURL cannot be changed: pull requests of another server are others; make another GitHubRepository"
// +kubebuilder:validation:XValidation:rule="!has(self.feedback) || has(self.credentialsSecretRef)",message="spec.credentialsSecretRef is needed by spec.feedback: GitHub lets nobody write without credentials"
type GitHubRepositorySpec struct {
	// owner of the repository: a user or an organization.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9_])?$')",message="spec.owner is the name of a user or an organization alone, without a slash: of github.com/acme/shop write owner: acme and repo: shop"
	Owner string `json:"owner"`

	// repo is the repository's name, without the owner.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._-]+$') && self != '.' && self != '..' && !self.endsWith('.git')",message="spec.repo is the name of a repository alone, without owner and .git: of github.com/acme/shop.git write owner: acme and repo: shop"
	Repo string `json:"repo"`

	// baseURL of a GitHub Enterprise Server, such as https://github.example.com.
	// Absent: github.com. It cannot be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@[:space:]]+(/[^?#[:space:]]*)?$') && isURL(self)",message="spec.baseURL must be an absolute URL without user name, query and fragment, such as https://github.example.com"
	// +kubebuilder:validation:XValidation:rule="!self.matches('/api(/(v3|graphql|uploads)?)?/*$')",message="spec.baseURL is where people open the server, such as https://github.example.com: leave /api/v3 off"
	BaseURL string `json:"baseURL,omitempty"`

	// credentialsSecretRef names a Secret of this namespace with either the key token
	// (a fine-grained personal access token), or the keys appID and privateKey (PEM) of
	// a GitHub App, and installationID where it is known. Absent: nobody, with 60
	// requests an hour, which suits public repositories in tests only.
	// +optional
	CredentialsSecretRef *Reference `json:"credentialsSecretRef,omitempty"`

	// webhookSecretRef names a Secret of this namespace whose key "secret" signs the
	// deliveries of a webhook. With it the manager takes deliveries at
	// status.webhookPath; they only bring the next look forward.
	// +optional
	WebhookSecretRef *Reference `json:"webhookSecretRef,omitempty"`

	// interval between two looks, at least 5s; jittered by a tenth. A look at a
	// repository in which nothing changed costs none of the hourly requests.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s') && duration(self) <= duration('24h')",message="spec.interval must be between 5s and 24h"
	Interval Duration `json:"interval,omitempty"`

	// suspend stops looking and writing; what is known stays known.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// allowedNamespaces says which namespaces' ImagePolicies may use it.
	// +optional
	AllowedNamespaces *AllowedNamespaces `json:"allowedNamespaces,omitempty"`

	// feedback says what is written to GitHub. Absent: nothing.
	// +optional
	Feedback *Feedback `json:"feedback,omitempty"`
}

// NamespacesFrom says which namespaces are meant.
// +kubebuilder:validation:Enum=Same;All;Selector
type NamespacesFrom string

// The sets of namespaces: Same is this one, All is every one, Selector those that
// carry the labels.
const (
	NamespacesSame     NamespacesFrom = "Same"
	NamespacesAll      NamespacesFrom = "All"
	NamespacesSelector NamespacesFrom = "Selector"
)

// AllowedNamespaces is a set of namespaces.
// +kubebuilder:validation:XValidation:rule="(self.from == 'Selector') == has(self.selector)",message="spec.allowedNamespaces: from Selector needs selector, and no other has one"
type AllowedNamespaces struct {
	// from says which namespaces are meant.
	// +required
	From NamespacesFrom `json:"from"`

	// selector of the namespaces' labels, with from Selector.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// Feedback says what is written to GitHub.
type Feedback struct {
	// deployments that are kept at GitHub.
	// +optional
	// +kubebuilder:default={}
	Deployments FeedbackDeployments `json:"deployments,omitempty"`

	// environment is the name of the environment: a text with {{.Number}}, {{.Branch}},
	// {{.ReleaseGroupName}}, {{.Microservice}} and {{.Namespace}}. Default:
	// "{{.Microservice}}/{{.ReleaseGroupName}}".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^{}]|[{][{][.](Number|Branch|ReleaseGroupName|Microservice|Namespace)[}][}])*$')",message="spec.feedback.environment: the variables are {{.Number}}, {{.Branch}}, {{.ReleaseGroupName}}, {{.Microservice}} and {{.Namespace}}"
	Environment string `json:"environment,omitempty"`

	// comment says whether one comment on the pull request, edited in place, lists its
	// previews. Default: true.
	// +optional
	// +kubebuilder:default=true
	Comment *bool `json:"comment,omitempty"`
}

// FeedbackDeployments says what gets a GitHub Deployment.
type FeedbackDeployments struct {
	// pullRequests get a transient Deployment for each head commit. Default: true.
	// +optional
	// +kubebuilder:default=true
	PullRequests *bool `json:"pullRequests,omitempty"`

	// releases get a Deployment for each version that becomes active.
	// +optional
	Releases bool `json:"releases,omitempty"`
}

// PullRequestState is whether a pull request is open.
// +kubebuilder:validation:Enum=Open;Closed
type PullRequestState string

// The states of a pull request. Closed is believed only from an answer about its
// number.
const (
	PullRequestOpen   PullRequestState = "Open"
	PullRequestClosed PullRequestState = "Closed"
)

// PullRequest is what GitHub says about a pull request.
type PullRequest struct {
	// number of the pull request, its identity.
	Number int64 `json:"number"`

	// state of the pull request.
	State PullRequestState `json:"state"`

	// headRef is the head branch.
	// +kubebuilder:validation:MaxLength=255
	HeadRef string `json:"headRef"`

	// headSHA is the head commit.
	// +kubebuilder:validation:MaxLength=64
	HeadSHA string `json:"headSHA"`

	// mergeSHA is the commit with which GitHub tests the merge: the last one that has the
	// head commit among its parents.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	MergeSHA string `json:"mergeSHA,omitempty"`

	// headTime is a time before which no image of the head commit can have been built:
	// that of the commit, or that of the last look which still saw another one.
	// +optional
	HeadTime *metav1.Time `json:"headTime,omitempty"`

	// pushTime is when the head commit was first seen, and never later than now. Where the
	// pull request itself was seen for the first time with it, it is when that was opened
	// or the commit was made, whichever came later.
	// +optional
	PushTime *metav1.Time `json:"pushTime,omitempty"`

	// fork says that the head is in another repository, or in one that was deleted.
	// +optional
	Fork bool `json:"fork,omitempty"`

	// headRepo is the head's repository, "owner/name"; absent where it was deleted.
	// +optional
	// +kubebuilder:validation:MaxLength=140
	HeadRepo string `json:"headRepo,omitempty"`

	// baseRef is the base branch.
	// +kubebuilder:validation:MaxLength=255
	BaseRef string `json:"baseRef"`

	// author's login; absent where the account was deleted.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Author string `json:"author,omitempty"`

	// association of the author.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Association AuthorAssociation `json:"association,omitempty"`

	// labels on it: those that ImagePolicies name, and others by name up to twenty.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Labels []PullRequestLabel `json:"labels,omitempty"`

	// draft says that it is one.
	// +optional
	Draft bool `json:"draft,omitempty"`

	// title of the pull request, cut.
	// +optional
	// +kubebuilder:validation:MaxLength=80
	Title string `json:"title,omitempty"`

	// closedTime is when it was closed.
	// +optional
	ClosedTime *metav1.Time `json:"closedTime,omitempty"`
}

// PullRequestLabel is a label on a pull request.
type PullRequestLabel struct {
	// name of the label.
	// +kubebuilder:validation:MaxLength=50
	Name string `json:"name"`

	// sha is the head commit at which the label was seen to be put on. Absent where
	// nobody knows: it came together with another head; or, on a pull request of a fork,
	// that was not known before, or while nobody looked.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SHA string `json:"sha,omitempty"`
}

// GitHubRelease is a published release.
type GitHubRelease struct {
	// tag of the release.
	// +kubebuilder:validation:MaxLength=255
	Tag string `json:"tag"`
	// prerelease says that GitHub marks it as one.
	// +optional
	Prerelease bool `json:"prerelease,omitempty"`
	// publishedTime is when it was published.
	// +optional
	PublishedTime *metav1.Time `json:"publishedTime,omitempty"`
}

// GitHubTag is a tag of the repository.
type GitHubTag struct {
	// name of the tag.
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name"`
	// sha of the commit.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SHA string `json:"sha,omitempty"`
}

// DeploymentState is the state of a GitHub Deployment.
// +kubebuilder:validation:Enum=queued;in_progress;success;failure;inactive
type DeploymentState string

// The states that are written: queued while there is no image, in_progress while
// pods start, success once the release is ready and routed, failure with the reason,
// inactive once it is closed or a newer commit took its place.
const (
	DeploymentQueued     DeploymentState = "queued"
	DeploymentInProgress DeploymentState = "in_progress"
	DeploymentSuccess    DeploymentState = "success"
	DeploymentFailure    DeploymentState = "failure"
	DeploymentInactive   DeploymentState = "inactive"
)

// FeedbackRecord is what was written to GitHub about one environment.
type FeedbackRecord struct {
	// repository that it is in, "owner/name"; absent before the first look.
	// +optional
	// +kubebuilder:validation:MaxLength=140
	Repository string `json:"repository,omitempty"`
	// repositoryID is GitHub's number of that repository.
	// +optional
	RepositoryID int64 `json:"repositoryID,omitempty"`
	// environment at GitHub.
	// +kubebuilder:validation:MaxLength=255
	Environment string `json:"environment"`
	// ref is the commit, or the tag of a release.
	// +kubebuilder:validation:MaxLength=255
	Ref string `json:"ref"`
	// pullRequest number; absent for releases.
	// +optional
	PullRequest int64 `json:"pullRequest,omitempty"`
	// deploymentID at GitHub.
	// +optional
	DeploymentID int64 `json:"deploymentID,omitempty"`
	// state that was written last.
	// +optional
	State DeploymentState `json:"state,omitempty"`
	// checksum of what was written last, URL and reason included.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Checksum string `json:"checksum,omitempty"`
}

// CommentRecord is the one comment on a pull request.
type CommentRecord struct {
	// repository that it is in, "owner/name"; absent before the first look.
	// +optional
	// +kubebuilder:validation:MaxLength=140
	Repository string `json:"repository,omitempty"`
	// repositoryID is GitHub's number of that repository.
	// +optional
	RepositoryID int64 `json:"repositoryID,omitempty"`
	// pullRequest number.
	PullRequest int64 `json:"pullRequest"`
	// commentID at GitHub.
	// +optional
	CommentID int64 `json:"commentID,omitempty"`
	// checksum of what was written last.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Checksum string `json:"checksum,omitempty"`
	// deletions counts how often somebody deleted the comment, up to two: it is
	// written once more, and then not again.
	// +optional
	// +kubebuilder:validation:Maximum=2
	Deletions int32 `json:"deletions,omitempty"`
}

// GitHubRepositoryStatus is what GitHub said, and what was written there.
type GitHubRepositoryStatus struct {
	// conditions: Ready, RateLimited, Truncated, WebhookReady, FeedbackReady;
	// Reconciling and Stalled while they hold.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastHandledRequest is the last value of the annotation hlnr.io/requestedAt
	// that led to a look.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LastHandledRequest string `json:"lastHandledRequest,omitempty"`

	// repository in full: "owner/name", as GitHub calls it now.
	// +optional
	// +kubebuilder:validation:MaxLength=140
	Repository string `json:"repository,omitempty"`

	// repositoryID is GitHub's number of the repository, which it keeps when it is
	// renamed: the same number means the same pull requests.
	// +optional
	RepositoryID int64 `json:"repositoryID,omitempty"`

	// resolvedFrom is the "owner/name" of the specification that led to the repository.
	// Where the same name leads to one with another ID, nothing is read from that one.
	// +optional
	// +kubebuilder:validation:MaxLength=140
	ResolvedFrom string `json:"resolvedFrom,omitempty"`

	// openPullRequests counts them.
	// +optional
	OpenPullRequests *int32 `json:"openPullRequests,omitempty"`

	// pullRequests that are open, and closed ones until no ImagePolicy offers them;
	// highest number first.
	// +optional
	// +listType=map
	// +listMapKey=number
	// +kubebuilder:validation:MaxItems=500
	PullRequests []PullRequest `json:"pullRequests,omitempty"`

	// releases that are published, newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Releases []GitHubRelease `json:"releases,omitempty"`

	// tags of the repository, if an ImagePolicy wants them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Tags []GitHubTag `json:"tags,omitempty"`

	// webhookPath is the path below the manager's webhook address at which deliveries
	// are taken.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	WebhookPath string `json:"webhookPath,omitempty"`

	// feedback that was written.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=600
	Feedback []FeedbackRecord `json:"feedback,omitempty"`

	// comments that were written.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Comments []CommentRecord `json:"comments,omitempty"`
}

// Conditions of a GitHubRepository, beside RateLimited and Truncated.
const (
	// ConditionWebhookReady says that deliveries of a webhook are taken.
	ConditionWebhookReady = "WebhookReady"
	// ConditionFeedbackReady says that what is to be written at GitHub is written.
	ConditionFeedbackReady = "FeedbackReady"
)

// FinalizerFeedback on a GitHubRepository: its Deployments are made inactive before it
// goes.
const FinalizerFeedback = "hlnr.io/feedback"

// GitHubRepository reads a repository's releases, tags and pull requests, for
// ImagePolicies, and tells it what became of them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=githubrepositories,singular=githubrepository,shortName=ghr,categories=hlnr
// +kubebuilder:printcolumn:name="Repository",type=string,JSONPath=`.status.repository`
// +kubebuilder:printcolumn:name="PullRequests",type=integer,JSONPath=`.status.openPullRequests`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Status",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type GitHubRepository struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names the repository, and what may be read and written there.
	// +required
	Spec GitHubRepositorySpec `json:"spec"`

	// status is what GitHub said, and what was written there.
	// +optional
	Status GitHubRepositoryStatus `json:"status,omitempty"`
}

// GitHubRepositoryList is a list of GitHubRepositories.
// +kubebuilder:object:root=true
type GitHubRepositoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GitHubRepository `json:"items"`
}
