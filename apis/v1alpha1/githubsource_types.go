package v1alpha1

// NamespacedReference names an object, in this namespace by default.
type NamespacedReference struct {
	// name of the referent.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace of the referent. Absent: this one. The referent must allow it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// GitHubSource takes versions from a GitHub repository; each is offered only once
// its image is in the registry.
// +kubebuilder:validation:XValidation:rule="(has(self.releases) ? 1 : 0) + (has(self.tags) ? 1 : 0) + (has(self.pullRequests) ? 1 : 0) == 1",message="spec.source.github: set exactly one of releases, tags and pullRequests"
type GitHubSource struct {
	// repositoryRef names the GitHubRepository. One of another namespace must allow
	// this one in its spec.allowedNamespaces.
	// +required
	RepositoryRef NamespacedReference `json:"repositoryRef"`

	// releases takes the published releases; drafts are never taken.
	// +optional
	Releases *GitHubReleases `json:"releases,omitempty"`

	// tags takes the plain tags of the repository.
	// +optional
	Tags *GitHubTags `json:"tags,omitempty"`

	// pullRequests takes the open pull requests, each as a group of its own.
	// +optional
	PullRequests *GitHubPullRequests `json:"pullRequests,omitempty"`
}

// GitHubReleases has no settings of its own.
type GitHubReleases struct{}

// GitHubTags has no settings of its own.
type GitHubTags struct{}

// DraftPolicy chooses by draft state.
// +kubebuilder:validation:Enum=Exclude;Include;Only
type DraftPolicy string

// The choices: Exclude takes no drafts, Include all, Only drafts alone.
const (
	DraftExclude DraftPolicy = "Exclude"
	DraftInclude DraftPolicy = "Include"
	DraftOnly    DraftPolicy = "Only"
)

// AuthorAssociation is what the author of a pull request is to the repository, as
// GitHub says it.
// +kubebuilder:validation:Enum=Owner;Member;Collaborator;Contributor;FirstTimeContributor;FirstTimer;Mannequin;None
type AuthorAssociation string

// GitHubPullRequests chooses open pull requests. All that is set must agree.
type GitHubPullRequests struct {
	// labels of the pull request.
	// +optional
	Labels *PullRequestLabels `json:"labels,omitempty"`

	// base is a regular expression (RE2) that the whole base branch must match.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Base string `json:"base,omitempty"`

	// head is a regular expression (RE2) that the whole head branch must match.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Head string `json:"head,omitempty"`

	// draft says whether drafts are taken. Default: Exclude.
	// +optional
	Draft DraftPolicy `json:"draft,omitempty"`

	// associations that the author must have, one of them. Absent: any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	Associations []AuthorAssociation `json:"associations,omitempty"`

	// forks says what becomes of pull requests from other repositories. Absent: they
	// are denied, because their code is a stranger's.
	// +optional
	Forks *Forks `json:"forks,omitempty"`
}

// PullRequestLabels chooses by label; case does not count, as at GitHub.
type PullRequestLabels struct {
	// all of these are on it.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=50
	All []string `json:"all,omitempty"`

	// any of these is on it.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=50
	Any []string `json:"any,omitempty"`

	// none of these is on it.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=50
	None []string `json:"none,omitempty"`
}

// ForkPolicy says what becomes of pull requests from forks.
// +kubebuilder:validation:Enum=Deny;Approved;Allow
type ForkPolicy string

const (
	// ForksDeny takes none.
	ForksDeny ForkPolicy = "Deny"
	// ForksApproved takes a commit that a label approves, and of it images by a tag with
	// the whole commit only. A label that names the commit approves that one. Any other
	// approves the head commit at which it was first seen; a push needs it taken off and
	// put on again.
	ForksApproved ForkPolicy = "Approved"
	// ForksAllow takes all of them.
	ForksAllow ForkPolicy = "Allow"
)

// Forks says what becomes of pull requests from forks.
// +kubebuilder:validation:XValidation:rule="(self.policy == 'Approved') == has(self.label)",message="spec.source.github.pullRequests.forks: policy Approved needs label, and no other policy has one"
type Forks struct {
	// policy of pull requests from forks.
	// +required
	Policy ForkPolicy `json:"policy"`

	// label that approves a commit, with policy Approved. With {{.SHA}} in it, such as
	// "preview:{{.SHA}}", it names the commit that it approves: it approves what its author
	// read, whatever is pushed meanwhile. A label without it is bound to the head commit at
	// which it was first seen, which may have been pushed after the author opened the page.
	// A label has at most 50 characters, 40 of them for {{.SHA}}.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:XValidation:rule="!self.contains('{{') || self.matches('^[^{}]*[{][{][.]SHA[}][}][^{}]*$')",message="spec.source.github.pullRequests.forks.label: the only variable is {{.SHA}}, once, as in preview:{{.SHA}}"
	// +kubebuilder:validation:XValidation:rule="!self.contains('{{.SHA}}') || size(self) <= 18",message="spec.source.github.pullRequests.forks.label: at most ten characters go with {{.SHA}}, because a label has at most 50: write preview:{{.SHA}}"
	Label string `json:"label,omitempty"`
}

// Match maps what the source names to tags of the image.
type Match struct {
	// name maps the name of a release or tag of GitHub. Absent: the image's tag has
	// the same name.
	// +optional
	Name *NameMatch `json:"name,omitempty"`

	// candidates are templates of the image's tag for a pull request, tried in order:
	// {{.Number}}, {{.SHA}}, {{.SHA7}} and {{.Branch}} (as a DNS label); each has one of
	// the first three, because two pull requests can have the same {{.Branch}}. One
	// without a commit in it is a tag that moves: its image must name the head commit, or
	// that of the merge, by its revision label; without that label it counts when it is
	// newer than the head commit, and no fork's. With forks.policy Approved, images of
	// forks are taken by candidates with {{.SHA}} only. Absent:
	// "pr-{{.Number}}-{{.SHA7}}", "sha-{{.SHA7}}", "{{.SHA}}", "pr-{{.Number}}".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:XValidation:rule="!self.contains('{{') || self.matches('^([^{}]|[{][{][.](Number|SHA|SHA7|Branch)[}][}])*$')",message="spec.match.candidates: the variables are {{.Number}}, {{.SHA}}, {{.SHA7}} and {{.Branch}}"
	// +kubebuilder:validation:items:XValidation:rule="self.contains('{{.Number}}') || self.contains('{{.SHA}}') || self.contains('{{.SHA7}}')",message="spec.match.candidates: a tag that names neither the pull request nor its commit can be another one's: use {{.Number}}, {{.SHA}} or {{.SHA7}}, also beside {{.Branch}}"
	Candidates []string `json:"candidates,omitempty"`

	// labels that the image must carry, as labels of its configuration or annotations
	// of its manifest or index.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Labels []LabelMatch `json:"labels,omitempty"`
}

// NameMatch rewrites a name by a regular expression.
type NameMatch struct {
	// from is a regular expression (RE2) that the whole name must match, such as
	// "v(.*)" or "shop/v(?P<version>.*)". Names that do not match are left out.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	From string `json:"from"`

	// to is the image's tag, written with the groups of from: "$1", "${version}".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	To string `json:"to"`
}

// LabelMatch is a label that an image must carry.
type LabelMatch struct {
	// name of the label or annotation, such as "org.opencontainers.image.revision".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// value that it must have: a text with {{.Tag}} (the name that the source gives,
	// or the image's tag), {{.SHA}} (the commit), and for pull requests {{.Number}},
	// {{.SHA7}} and {{.Branch}}. Absent: any value.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.contains('{{') || self.matches('^([^{}]|[{][{][.](Tag|Number|SHA|SHA7|Branch)[}][}])*$')",message="spec.match.labels: the variables are {{.Tag}}, {{.Number}}, {{.SHA}}, {{.SHA7}} and {{.Branch}}"
	Value string `json:"value,omitempty"`
}

// AdditionalImage is a further image that goes in step.
type AdditionalImage struct {
	// containerName is the container, or init container, of the template that runs it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ContainerName string `json:"containerName"`

	// image is the repository, without tag or digest.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="!self.contains('://')",message="spec.additionalImages: image has no scheme: write registry.example.com/shop"
	// +kubebuilder:validation:XValidation:rule="self.contains('://') || self.matches('^([^/]+/)*[^/:@]*$')",message="spec.additionalImages: image names a repository: leave out the tag and the digest"
	Image string `json:"image"`
}

// Verify admits only images that are signed.
type Verify struct {
	// cosign checks signatures made with a key pair of cosign. Signatures without a
	// key (Fulcio, Rekor) are not supported.
	// +required
	Cosign CosignVerify `json:"cosign"`
}

// CosignVerify checks signatures made with a key pair of cosign.
// +kubebuilder:validation:XValidation:rule="has(self.keySecretRef)",message="spec.verify.cosign: keyless signatures are not supported: sign with a key pair, and name the Secret with its public key in keySecretRef"
type CosignVerify struct {
	// keySecretRef names a Secret of this namespace with public keys in PEM, each
	// under a key that ends in ".pub"; a signature by any of them counts. It must be
	// set: signatures without a key are not supported.
	// +optional
	KeySecretRef Reference `json:"keySecretRef,omitzero"`
}
