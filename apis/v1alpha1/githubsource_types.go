package v1alpha1

// NamespacedReference refers to an object, by default in the same namespace.
type NamespacedReference struct {
	// name of the referent.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace of the referent. Defaults to the namespace of this object. A referent in
	// another namespace must allow the reference.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// GitHubSource takes versions from a GitHub repository. A version is offered as soon as its image is
// in the registry.
// +kubebuilder:validation:XValidation:rule="(has(self.releases) ? 1 : 0) + (has(self.tags) ? 1 : 0) + (has(self.pullRequests) ? 1 : 0) == 1",message="spec.source.github: set exactly one of releases, tags and pullRequests"
type GitHubSource struct {
	// repositoryRef refers to the GitHubRepository. If it is in another namespace, its
	// spec.allowedNamespaces must allow the namespace of this object.
	// +required
	RepositoryRef NamespacedReference `json:"repositoryRef"`

	// releases takes the versions from published releases. Drafts are always excluded. Exactly one of
	// releases, tags and pullRequests is required.
	// +optional
	Releases *GitHubReleases `json:"releases,omitempty"`

	// tags takes the versions from the tags of the repository.
	// +optional
	Tags *GitHubTags `json:"tags,omitempty"`

	// pullRequests takes the versions from open pull requests. Each pull request has its own release
	// group.
	// +optional
	PullRequests *GitHubPullRequests `json:"pullRequests,omitempty"`
}

// GitHubReleases has no settings.
type GitHubReleases struct{}

// GitHubTags has no settings.
type GitHubTags struct{}

// DraftPolicy selects pull requests by draft state.
// +kubebuilder:validation:Enum=Exclude;Include;Only
type DraftPolicy string

// The draft policies. Exclude means that no drafts are selected. Include means that drafts are
// selected as well. Only means that only drafts are selected.
const (
	DraftExclude DraftPolicy = "Exclude"
	DraftInclude DraftPolicy = "Include"
	DraftOnly    DraftPolicy = "Only"
)

// AuthorAssociation is the association of a pull request's author with the repository, as GitHub
// reports it.
// +kubebuilder:validation:Enum=Owner;Member;Collaborator;Contributor;FirstTimeContributor;FirstTimer;Mannequin;None
type AuthorAssociation string

// GitHubPullRequests selects open pull requests. A pull request is selected if it meets all
// criteria that are set.
type GitHubPullRequests struct {
	// labels selects pull requests by label.
	// +optional
	Labels *PullRequestLabels `json:"labels,omitempty"`

	// base is a regular expression (RE2) that the whole name of the base branch must match.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Base string `json:"base,omitempty"`

	// head is a regular expression (RE2) that the whole name of the head branch must match.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Head string `json:"head,omitempty"`

	// draft defines whether drafts are selected. Exclude means that no drafts are selected. Include
	// means that drafts are selected as well. Only means that only drafts are selected. Defaults to
	// Exclude.
	// +optional
	Draft DraftPolicy `json:"draft,omitempty"`

	// associations lists the associations of authors whose pull requests are selected. Owner means
	// that the author owns the repository. Member means that the author is a member of the
	// organization that owns the repository. Collaborator means that the author was invited to the
	// repository. Contributor means that the author has committed to the repository before.
	// FirstTimeContributor means that the author has no earlier commit in the repository.
	// FirstTimer means that the author has no earlier commit on GitHub. Mannequin means that the
	// author is a placeholder for an imported user. None means that no other value applies.
	// Defaults to all associations.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	Associations []AuthorAssociation `json:"associations,omitempty"`

	// forks defines what happens to pull requests from other repositories. By default they
	// are denied, because their code is untrusted.
	// +optional
	Forks *Forks `json:"forks,omitempty"`
}

// PullRequestLabels selects pull requests by label. Case is ignored, as on GitHub.
type PullRequestLabels struct {
	// all lists labels that must all be present.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=50
	All []string `json:"all,omitempty"`

	// any lists labels, at least one of which must be present.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=50
	Any []string `json:"any,omitempty"`

	// none lists labels that must not be present.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=50
	None []string `json:"none,omitempty"`
}

// ForkPolicy defines what happens to pull requests from forks.
// +kubebuilder:validation:Enum=Deny;Approved;Allow
type ForkPolicy string

const (
	// ForksDeny selects no pull requests from forks.
	ForksDeny ForkPolicy = "Deny"
	// ForksApproved selects only commits that a label approves, and only images whose tag contains the
	// full commit SHA. A label that contains a commit SHA approves that commit. Any other label approves
	// the commit that was the head of the pull request when the label was first seen. To approve a later
	// commit, remove the label and add it again.
	ForksApproved ForkPolicy = "Approved"
	// ForksAllow selects all pull requests from forks.
	ForksAllow ForkPolicy = "Allow"
)

// Forks defines what happens to pull requests from forks.
// +kubebuilder:validation:XValidation:rule="(self.policy == 'Approved') == has(self.label)",message="spec.source.github.pullRequests.forks: set label if and only if policy is Approved"
type Forks struct {
	// policy for pull requests from forks. Deny means that no pull request is selected. Approved means
	// that the commits approved by the label are selected. Allow means that every pull request is
	// selected.
	// +required
	Policy ForkPolicy `json:"policy"`

	// label that approves a commit if policy is Approved. If it contains {{.SHA}}, as in
	// "preview:{{.SHA}}", the label identifies the commit that it approves, regardless of later
	// pushes. Without {{.SHA}}, the label approves the commit that was the head of the pull request
	// when the label was first seen. This commit might have been pushed after the reviewer opened the
	// page. GitHub limits labels to 50 characters, and {{.SHA}} takes 40 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:XValidation:rule="!self.contains('{{') || self.matches('^[^{}]*[{][{][.]SHA[}][}][^{}]*$')",message="spec.source.github.pullRequests.forks.label: the only supported variable is {{.SHA}}, which can be used once, as in preview:{{.SHA}}"
	// +kubebuilder:validation:XValidation:rule="!self.contains('{{.SHA}}') || size(self) <= 18",message="spec.source.github.pullRequests.forks.label: at most ten characters are allowed in addition to {{.SHA}}, because GitHub limits labels to 50 characters: for example, preview:{{.SHA}}"
	Label string `json:"label,omitempty"`
}

// Match maps names in the source to image tags.
type Match struct {
	// name maps the name of a GitHub tag, or the tag name of a GitHub release, to the tag of the image.
	// By default, the tag of the image has the same name.
	// +optional
	Name *NameMatch `json:"name,omitempty"`

	// candidates are templates for the image tag of a pull request, tried in order. The supported
	// variables are {{.Number}}, {{.SHA}}, {{.SHA7}} and {{.Branch}} (as a DNS label). Each candidate
	// must contain at least one of the first three variables, because two pull requests can have the
	// same {{.Branch}}. A tag that does not contain the commit can move. Therefore, if an image with
	// such a tag has a revision label, its value must be the head commit or the test merge commit. An
	// image without this label is accepted if it is newer than the head commit and the pull request is
	// not from a fork. With forks.policy Approved, only candidates with {{.SHA}} apply to pull requests
	// from forks. Defaults to "pr-{{.Number}}-{{.SHA7}}", "sha-{{.SHA7}}", "{{.SHA}}" and
	// "pr-{{.Number}}", in this order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:XValidation:rule="!self.contains('{{') || self.matches('^([^{}]|[{][{][.](Number|SHA|SHA7|Branch)[}][}])*$')",message="spec.match.candidates: the supported variables are {{.Number}}, {{.SHA}}, {{.SHA7}} and {{.Branch}}"
	// +kubebuilder:validation:items:XValidation:rule="self.contains('{{.Number}}') || self.contains('{{.SHA}}') || self.contains('{{.SHA7}}')",message="spec.match.candidates: a tag must name the pull request or its commit: use {{.Number}}, {{.SHA}} or {{.SHA7}}, alone or together with {{.Branch}}"
	Candidates []string `json:"candidates,omitempty"`

	// labels that the image must have, as labels of its configuration or annotations of its
	// manifest or index.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Labels []LabelMatch `json:"labels,omitempty"`
}

// NameMatch rewrites a name with a regular expression.
type NameMatch struct {
	// from is a regular expression (RE2) that the whole name must match, such as
	// "v(.*)" or "shop/v(?P<version>.*)". Names that do not match are ignored.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	From string `json:"from"`

	// to is a template for the image's tag that can refer to the capture groups of from, such as "$1"
	// or "${version}".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	To string `json:"to"`
}

// LabelMatch is a label that an image must have.
type LabelMatch struct {
	// name of the label or annotation, such as "org.opencontainers.image.revision".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// value of the label. The supported variables are {{.Tag}} (the name in the source, or the tag of
	// the image), for GitHub sources {{.SHA}} (the commit), and for pull requests also {{.Number}},
	// {{.SHA7}} and {{.Branch}}. By default, any value is accepted.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.contains('{{') || self.matches('^([^{}]|[{][{][.](Tag|Number|SHA|SHA7|Branch)[}][}])*$')",message="spec.match.labels: the supported variables are {{.Tag}}, {{.Number}}, {{.SHA}}, {{.SHA7}} and {{.Branch}}"
	Value string `json:"value,omitempty"`
}

// AdditionalImage is another image that is released together with spec.image.
type AdditionalImage struct {
	// containerName is the name of the template's container or init container that runs the image.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ContainerName string `json:"containerName"`

	// image is the repository of the image, without a tag or digest.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="!self.contains('://')",message="spec.additionalImages: image must not have a scheme: write registry.example.com/shop"
	// +kubebuilder:validation:XValidation:rule="self.contains('://') || self.matches('^([^/]+/)*[^/:@]*$')",message="spec.additionalImages: image must be a repository: omit the tag and the digest"
	Image string `json:"image"`
}

// Verify admits only signed images.
type Verify struct {
	// cosign verifies signatures made with a cosign key pair. Keyless signatures (Fulcio,
	// Rekor) are not supported.
	// +required
	Cosign CosignVerify `json:"cosign"`
}

// CosignVerify verifies signatures made with a cosign key pair.
// +kubebuilder:validation:XValidation:rule="has(self.keySecretRef)",message="spec.verify.cosign: keyless signatures are not supported: sign with a key pair, and name the Secret with its public key in keySecretRef"
type CosignVerify struct {
	// keySecretRef refers to a Secret in this namespace with public keys in PEM format, in entries
	// whose names end in ".pub". A signature is accepted if any of these public keys verifies it.
	// keySecretRef is required, because keyless signatures are not supported.
	// +optional
	KeySecretRef Reference `json:"keySecretRef,omitzero"`
}
