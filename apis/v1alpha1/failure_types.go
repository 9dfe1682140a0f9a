package v1alpha1

// The values of a VersionedMicroservice's status.failure: why a release is not available. They
// are part of the API. AdmissionUnavailable, ContainerCreating, ImagePullBackOff,
// NameConflict, OtherReleaseRunning, QuotaExceeded and Unschedulable are causes outside of the release; the release
// itself is the cause of all others.
const (
	// FailureImageNotFound: the registry reported that the image does not exist.
	FailureImageNotFound = "ImageNotFound"
	// FailureImageUnusable: the image exists, but a node must not or cannot run it: its signature
	// is rejected, or it was not built for the node's platform.
	FailureImageUnusable = "ImageUnusable"
	// FailureImagePullBackOff: the image could not be pulled for another reason: the credentials
	// are missing or rejected, or the registry does not respond.
	FailureImagePullBackOff = "ImagePullBackOff"
	// FailureInvalidImageName: the image reference is invalid.
	FailureInvalidImageName = "InvalidImageName"
	// FailureCreateContainerConfigError: a ConfigMap, Secret or key is missing, or the security
	// context cannot be satisfied.
	FailureCreateContainerConfigError = "CreateContainerConfigError"
	// FailureCreateContainerError: the container could not be created or started.
	FailureCreateContainerError = "CreateContainerError"
	// FailureCrashLoopBackOff: a container terminated and was restarted, and is not ready.
	FailureCrashLoopBackOff = "CrashLoopBackOff"
	// FailureQuotaExceeded: a ResourceQuota is exceeded.
	FailureQuotaExceeded = "QuotaExceeded"
	// FailurePodSecurityViolation: the namespace's Pod Security level rejects the pods.
	FailurePodSecurityViolation = "PodSecurityViolation"
	// FailureAdmissionUnavailable: an admission webhook or the API server could not decide about
	// the pods, because it did not respond or its response was invalid.
	FailureAdmissionUnavailable = "AdmissionUnavailable"
	// FailurePodRejected: the API server or an admission plugin rejects the pods for another
	// reason.
	FailurePodRejected = "PodRejected"
	// FailureUnschedulable: no node is suitable for a pod, or no scheduler has handled it.
	FailureUnschedulable = "Unschedulable"
	// FailureContainerCreating: a node has not created the network, the volumes or a container of
	// a pod.
	FailureContainerCreating = "ContainerCreating"
	// FailureOtherReleaseRunning: the release is exclusive, and pods of another release of its group
	// are still running.
	FailureOtherReleaseRunning = "OtherReleaseRunning"
	// FailureReadinessFailing: a container runs, but does not become ready in the time that its
	// probes allow.
	FailureReadinessFailing = "ReadinessFailing"
	// FailureNameConflict: a Deployment with the same name exists, and is not managed by this
	// VersionedMicroservice.
	FailureNameConflict = "NameConflict"
	// FailureInvalidTemplate: the API server rejects the pod template.
	FailureInvalidTemplate = "InvalidTemplate"
	// FailureForbidden: the API server rejects the Deployment for another reason.
	FailureForbidden = "Forbidden"
)
