package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GitHubRepositorySpec defines a repository, the namespaces that may use it, and the feedback that
// is written to it.
// +kubebuilder:validation:XValidation:rule="has(self.baseURL) == has(oldSelf.baseURL) && (!has(self.baseURL) || self.baseURL == oldSelf.baseURL)",message="spec.baseURL is immutable: create another GitHubRepository for another server"
// +kubebuilder:validation:XValidation:rule="!has(self.feedback) || has(self.credentialsSecretRef)",message="spec.feedback requires spec.credentialsSecretRef: GitHub does not allow anonymous writes"
type GitHubRepositorySpec struct {
	// owner of the repository: a user or an organization.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9_])?$')",message="spec.owner must be the name of a user or an organization, without a slash: for github.com/acme/shop write owner: acme and repo: shop"
	Owner string `json:"owner"`

	// repo is the repository's name, without the owner.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._-]+$') && self != '.' && self != '..' && !self.endsWith('.git')",message="spec.repo must be the name of a repository, without the owner or .git: for github.com/acme/shop.git write owner: acme and repo: shop"
	Repo string `json:"repo"`

	// baseURL of a GitHub Enterprise Server, such as https://github.example.com. Defaults to
	// github.com. It is immutable.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@[:space:]]+(/[^?#[:space:]]*)?$') && isURL(self)",message="spec.baseURL must be an absolute URL without a username, query or fragment, such as https://github.example.com"
	// +kubebuilder:validation:XValidation:rule="!self.matches('/api(/(v3|graphql|uploads)?)?/*$')",message="spec.baseURL must be the address of the web interface, such as https://github.example.com: omit /api/v3"
	BaseURL string `json:"baseURL,omitempty"`

	// credentialsSecretRef refers to a Secret in this namespace with either the key token (a
	// fine-grained personal access token), or the keys appID, privateKey (PEM) and, optionally,
	// installationID of a GitHub App. Without credentials, GitHub allows 60 requests per hour, which is
	// enough only for trying out a public repository.
	// +optional
	CredentialsSecretRef *Reference `json:"credentialsSecretRef,omitempty"`

	// webhookSecretRef refers to a Secret in this namespace whose key "secret" contains the secret with
	// which GitHub signs webhook deliveries. If webhookSecretRef is set, the manager accepts deliveries
	// at status.webhookPath. A delivery brings the next poll forward; the content of the delivery is
	// not used.
	// +optional
	WebhookSecretRef *Reference `json:"webhookSecretRef,omitempty"`

	// interval between two polls. It must be at least 5s, and is jittered by up to 10%. With
	// a personal access token, a poll that finds no change does not count against the hourly rate
	// limit. Defaults to 1m.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s') && duration(self) <= duration('24h')",message="spec.interval must be between 5s and 24h"
	Interval Duration `json:"interval,omitempty"`

	// suspend stops all reading from and writing to GitHub. The state that has already been read
	// remains in status. Defaults to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// allowedNamespaces defines the namespaces whose ImagePolicies may use this repository.
	// Defaults to the namespace of this object.
	// +optional
	AllowedNamespaces *AllowedNamespaces `json:"allowedNamespaces,omitempty"`

	// feedback defines which feedback is written to GitHub. By default nothing is written.
	// +optional
	Feedback *Feedback `json:"feedback,omitempty"`
}

// NamespacesFrom selects namespaces.
// +kubebuilder:validation:Enum=Same;All;Selector
type NamespacesFrom string

// The sets of namespaces. Same means the namespace of the GitHubRepository. All means every
// namespace. Selector means every namespace with matching labels.
const (
	NamespacesSame     NamespacesFrom = "Same"
	NamespacesAll      NamespacesFrom = "All"
	NamespacesSelector NamespacesFrom = "Selector"
)

// AllowedNamespaces is a set of namespaces.
// +kubebuilder:validation:XValidation:rule="(self.from == 'Selector') == has(self.selector)",message="spec.allowedNamespaces: set selector if and only if from is Selector"
type AllowedNamespaces struct {
	// from selects namespaces. Same means the namespace of this object. All means every namespace.
	// Selector means every namespace whose labels match selector.
	// +required
	From NamespacesFrom `json:"from"`

	// selector selects namespaces by label. It must be set if and only if from is Selector.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// Feedback defines which feedback is written to GitHub.
type Feedback struct {
	// deployments defines which GitHub Deployments are created.
	// +optional
	// +kubebuilder:default={}
	Deployments FeedbackDeployments `json:"deployments,omitempty"`

	// environment is the name of the environment. It can contain the variables {{.Number}},
	// {{.Branch}}, {{.ReleaseGroupName}}, {{.Microservice}} and {{.Namespace}}. Defaults to
	// "{{.Microservice}}/{{.ReleaseGroupName}}".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^{}]|[{][{][.](Number|Branch|ReleaseGroupName|Microservice|Namespace)[}][}])*$')",message="spec.feedback.environment: the supported variables are {{.Number}}, {{.Branch}}, {{.ReleaseGroupName}}, {{.Microservice}} and {{.Namespace}}"
	Environment string `json:"environment,omitempty"`

	// comment enables a single comment on each pull request. The comment lists the previews of the
	// pull request, and is edited in place. Defaults to true.
	// +optional
	// +kubebuilder:default=true
	Comment *bool `json:"comment,omitempty"`
}

// FeedbackDeployments defines which GitHub Deployments are created.
type FeedbackDeployments struct {
	// pullRequests enables a GitHub Deployment with a transient environment for each head commit.
	// Defaults to true.
	// +optional
	// +kubebuilder:default=true
	PullRequests *bool `json:"pullRequests,omitempty"`

	// releases enables a GitHub Deployment for each version that becomes active.
	// +optional
	Releases bool `json:"releases,omitempty"`
}

// PullRequestState reports whether a pull request is open.
// +kubebuilder:validation:Enum=Open;Closed
type PullRequestState string

// The states of a pull request. A pull request is Closed only if GitHub, in response to a
// request for that pull request, reports that it is closed.
const (
	PullRequestOpen   PullRequestState = "Open"
	PullRequestClosed PullRequestState = "Closed"
)

// PullRequest is a pull request as GitHub reports it.
type PullRequest struct {
	// number of the pull request.
	Number int64 `json:"number"`

	// state of the pull request: Open or Closed. A merged pull request is Closed.
	State PullRequestState `json:"state"`

	// headRef is the head branch.
	// +kubebuilder:validation:MaxLength=255
	HeadRef string `json:"headRef"`

	// headSHA is the head commit.
	// +kubebuilder:validation:MaxLength=64
	HeadSHA string `json:"headSHA"`

	// mergeSHA is the test merge commit that GitHub creates for the pull request: the latest
	// test merge commit that has the head commit as a parent.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	MergeSHA string `json:"mergeSHA,omitempty"`

	// headTime is a time before which no image of the head commit can have been built. It is the
	// time at which the commit was made, or the time of the last poll that found the previous head
	// commit, whichever is later.
	// +optional
	HeadTime *metav1.Time `json:"headTime,omitempty"`

	// pushTime is when the head commit was first seen. For the first known head commit of a pull
	// request, it is the time at which the pull request was opened or the time at which the commit was
	// made, whichever is later.
	// +optional
	PushTime *metav1.Time `json:"pushTime,omitempty"`

	// fork reports whether the head branch is in another repository, or in a deleted repository.
	// +optional
	Fork bool `json:"fork,omitempty"`

	// headRepo is the repository of the head branch, "owner/name". It is empty if that repository
	// was deleted.
	// +optional
	// +kubebuilder:validation:MaxLength=140
	HeadRepo string `json:"headRepo,omitempty"`

	// baseRef is the base branch.
	// +kubebuilder:validation:MaxLength=255
	BaseRef string `json:"baseRef"`

	// author is the login of the author. It is empty if the account was deleted.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Author string `json:"author,omitempty"`

	// association of the author with the repository, as GitHub reports it: Owner, Member,
	// Collaborator, Contributor, FirstTimeContributor, FirstTimer, Mannequin or None.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Association AuthorAssociation `json:"association,omitempty"`

	// labels of the pull request, sorted by name: all labels that ImagePolicies refer to, and other
	// labels up to a total of twenty labels.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Labels []PullRequestLabel `json:"labels,omitempty"`

	// draft reports whether the pull request is a draft.
	// +optional
	Draft bool `json:"draft,omitempty"`

	// title of the pull request, truncated.
	// +optional
	// +kubebuilder:validation:MaxLength=80
	Title string `json:"title,omitempty"`

	// closedTime is when the pull request was closed.
	// +optional
	ClosedTime *metav1.Time `json:"closedTime,omitempty"`
}

// PullRequestLabel is a label on a pull request.
type PullRequestLabel struct {
	// name of the label.
	// +kubebuilder:validation:MaxLength=50
	Name string `json:"name"`

	// sha is the commit that was the head when the label was first observed. It is empty if
	// this commit is unknown because the label appeared together with a new head commit. On a pull
	// request from a fork, it is also empty if the pull request was new or reopened when the label was
	// first observed, if there was a gap in polling just before, or if the label might have been
	// omitted earlier because the list of labels was full.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SHA string `json:"sha,omitempty"`
}

// GitHubRelease is a published release.
type GitHubRelease struct {
	// tag of the release.
	// +kubebuilder:validation:MaxLength=255
	Tag string `json:"tag"`
	// prerelease reports whether GitHub marks the release as a pre-release.
	// +optional
	Prerelease bool `json:"prerelease,omitempty"`
	// publishedTime is when the release was published.
	// +optional
	PublishedTime *metav1.Time `json:"publishedTime,omitempty"`
}

// GitHubTag is a tag of the repository.
type GitHubTag struct {
	// name of the tag.
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name"`
	// sha of the commit that the tag refers to.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SHA string `json:"sha,omitempty"`
}

// DeploymentState is the state of a GitHub Deployment.
// +kubebuilder:validation:Enum=queued;in_progress;success;failure;inactive
type DeploymentState string

// The states that are written to GitHub: queued until the rollout starts, in_progress while pods
// start, success once the release is available and routed, failure if the release failed, and
// inactive once the pull request is closed, another commit or release replaces the one that was
// deployed, or the preview has expired or cannot start.
const (
	DeploymentQueued     DeploymentState = "queued"
	DeploymentInProgress DeploymentState = "in_progress"
	DeploymentSuccess    DeploymentState = "success"
	DeploymentFailure    DeploymentState = "failure"
	DeploymentInactive   DeploymentState = "inactive"
)

// FeedbackRecord records the Deployment that was written to GitHub for one environment.
type FeedbackRecord struct {
	// repository in which the Deployment was created, "owner/name". It is empty if the Deployment was
	// recorded before the first poll.
	// +optional
	// +kubebuilder:validation:MaxLength=140
	Repository string `json:"repository,omitempty"`
	// repositoryID is GitHub's ID of that repository.
	// +optional
	RepositoryID int64 `json:"repositoryID,omitempty"`
	// environment is the name of the environment on GitHub.
	// +kubebuilder:validation:MaxLength=255
	Environment string `json:"environment"`
	// ref is the commit, or the tag of a release.
	// +kubebuilder:validation:MaxLength=255
	Ref string `json:"ref"`
	// pullRequest is the number of the pull request. It is 0 for releases.
	// +optional
	PullRequest int64 `json:"pullRequest,omitempty"`
	// deploymentID is the ID of the Deployment on GitHub.
	// +optional
	DeploymentID int64 `json:"deploymentID,omitempty"`
	// state that was last written: queued until the rollout starts, in_progress while pods start,
	// success when the release is available and routed, failure if the release failed, and inactive
	// when the pull request is closed, another commit or release replaces the one that was deployed, or
	// the preview has expired or cannot start.
	// +optional
	State DeploymentState `json:"state,omitempty"`
	// checksum of the last written content, including URL and description.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Checksum string `json:"checksum,omitempty"`
}

// CommentRecord records the comment on a pull request.
type CommentRecord struct {
	// repository in which the comment was created, "owner/name". It is empty if the comment was
	// recorded before the first poll.
	// +optional
	// +kubebuilder:validation:MaxLength=140
	Repository string `json:"repository,omitempty"`
	// repositoryID is GitHub's ID of that repository.
	// +optional
	RepositoryID int64 `json:"repositoryID,omitempty"`
	// pullRequest is the number of the pull request.
	PullRequest int64 `json:"pullRequest"`
	// commentID is the ID of the comment on GitHub.
	// +optional
	CommentID int64 `json:"commentID,omitempty"`
	// checksum of the last written content.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Checksum string `json:"checksum,omitempty"`
	// deletions is the number of times that the comment was deleted, up to two. The comment is
	// recreated only after the first deletion.
	// +optional
	// +kubebuilder:validation:Maximum=2
	Deletions int32 `json:"deletions,omitempty"`
}

// GitHubRepositoryStatus defines the observed state of a GitHubRepository.
type GitHubRepositoryStatus struct {
	// conditions are Ready, RateLimited, Truncated, WebhookReady and FeedbackReady. Reconciling and
	// Stalled are present only while they are true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastHandledRequest is the latest value of the annotation hlnr.io/requestedAt that triggered a
	// poll.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LastHandledRequest string `json:"lastHandledRequest,omitempty"`

	// repository is the current name of the repository, "owner/name".
	// +optional
	// +kubebuilder:validation:MaxLength=140
	Repository string `json:"repository,omitempty"`

	// repositoryID is GitHub's ID of the repository. It does not change when the repository
	// is renamed.
	// +optional
	RepositoryID int64 `json:"repositoryID,omitempty"`

	// resolvedFrom is the "owner/name", as in the specification, that resolved to this repository. If
	// the same name later resolves to another ID, the repository with that ID is not read.
	// +optional
	// +kubebuilder:validation:MaxLength=140
	ResolvedFrom string `json:"resolvedFrom,omitempty"`

	// openPullRequests is the number of open pull requests. It is set only after an ImagePolicy
	// has selected pull requests as its source and the pull requests have been read. Until then,
	// ImagePolicies and feedback ignore pullRequests.
	// +optional
	OpenPullRequests *int32 `json:"openPullRequests,omitempty"`

	// pullRequests are the open pull requests, and the closed pull requests that an ImagePolicy
	// still offers or that were closed in the last 24 hours, sorted by number in descending order.
	// +optional
	// +listType=map
	// +listMapKey=number
	// +kubebuilder:validation:MaxItems=500
	PullRequests []PullRequest `json:"pullRequests,omitempty"`

	// releases are the published releases, newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Releases []GitHubRelease `json:"releases,omitempty"`

	// tags of the repository. They are read if an ImagePolicy has tags as its source. They are also
	// read if an ImagePolicy has releases as its source and the commits of the releases are needed,
	// because its spec.match.labels contains {{.SHA}} or spec.feedback.deployments.releases is true.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Tags []GitHubTag `json:"tags,omitempty"`

	// webhookPath is the path at the manager's webhook address that accepts deliveries.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	WebhookPath string `json:"webhookPath,omitempty"`

	// feedback lists the Deployments that were written to GitHub.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=600
	Feedback []FeedbackRecord `json:"feedback,omitempty"`

	// comments lists the comments that were written to GitHub.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Comments []CommentRecord `json:"comments,omitempty"`
}

// Conditions of a GitHubRepository, in addition to RateLimited and Truncated.
const (
	// ConditionWebhookReady reports whether webhook deliveries are accepted.
	ConditionWebhookReady = "WebhookReady"
	// ConditionFeedbackReady reports whether Deployments and comments on GitHub are up to date.
	ConditionFeedbackReady = "FeedbackReady"
)

// FinalizerFeedback delays the deletion of a GitHubRepository until its GitHub Deployments are
// inactive and its comments have their final text.
const FinalizerFeedback = "hlnr.io/feedback"

// GitHubRepository reads the releases, tags and pull requests of a GitHub repository for
// ImagePolicies, and reports the state of the resulting releases to GitHub.
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

	// spec defines the repository, the namespaces that may use it, and the feedback that is written
	// to it.
	// +required
	Spec GitHubRepositorySpec `json:"spec"`

	// status reports the state that was read from GitHub, and the feedback that was written.
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
