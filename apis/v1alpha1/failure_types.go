package v1alpha1

// The words of VersionedMicroservice's status.failure: why a release is not
// available. They are an API. AdmissionUnavailable, ContainerCreating, ImagePullBackOff,
// QuotaExceeded and Unschedulable are causes outside the release; all others are its own fault.
const (
	// FailureImageNotFound: the registry answered that there is no such image.
	FailureImageNotFound = "ImageNotFound"
	// FailureImageUnusable: the image exists, and a node may not or cannot run it: its
	// signature is refused, or it is not made for the node's platform.
	FailureImageUnusable = "ImageUnusable"
	// FailureImagePullBackOff: the image could not be pulled for any other cause: the
	// credentials are missing or refused, or the registry does not answer.
	FailureImagePullBackOff = "ImagePullBackOff"
	// FailureInvalidImageName: the image reference cannot be read.
	FailureInvalidImageName = "InvalidImageName"
	// FailureCreateContainerConfigError: a ConfigMap, Secret or key is missing, or
	// the security context cannot be met.
	FailureCreateContainerConfigError = "CreateContainerConfigError"
	// FailureCreateContainerError: the container could not be created or started.
	FailureCreateContainerError = "CreateContainerError"
	// FailureCrashLoopBackOff: a container ended and was started again, and is not
	// ready.
	FailureCrashLoopBackOff = "CrashLoopBackOff"
	// FailureQuotaExceeded: a ResourceQuota is exceeded.
	FailureQuotaExceeded = "QuotaExceeded"
	// FailurePodSecurityViolation: the namespace's Pod Security level refuses the
	// pods.
	FailurePodSecurityViolation = "PodSecurityViolation"
	// FailureAdmissionUnavailable: an admission webhook, or the server itself, could
	// not decide about the pods: it does not answer, or not as it should.
	FailureAdmissionUnavailable = "AdmissionUnavailable"
	// FailurePodRejected: the server or an admission plugin refuses the pods for
	// another cause.
	FailurePodRejected = "PodRejected"
	// FailureUnschedulable: no node takes a pod, or no scheduler has decided about it.
	FailureUnschedulable = "Unschedulable"
	// FailureContainerCreating: a node does not create the network, the volumes or a
	// container of a pod.
	FailureContainerCreating = "ContainerCreating"
	// FailureReadinessFailing: a container runs and does not become ready in the
	// time that its probes give.
	FailureReadinessFailing = "ReadinessFailing"
	// FailureNameConflict: a Deployment of that name exists and is not ours.
	FailureNameConflict = "NameConflict"
	// FailureInvalidTemplate: the server refuses the pod template.
	FailureInvalidTemplate = "InvalidTemplate"
	// FailureForbidden: the server refuses the Deployment for another cause.
	FailureForbidden = "Forbidden"
)
