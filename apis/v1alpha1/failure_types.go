package v1alpha1

// The values of a VersionedMicroservice's status.failure, which show why a release is not
// available. They are part of the API. AdmissionUnavailable, ContainerCreating, ImagePullBackOff,
// NameConflict, OtherReleaseRunning, QuotaExceeded and Unschedulable are problems outside the
// release; the release itself causes all other failures.
const (
	// FailureImageNotFound means that the registry reported that the image does not exist.
	FailureImageNotFound = "ImageNotFound"
	// FailureImageUnusable means that the image exists, but a node must not or cannot run it,
	// because its signature is rejected or because it was not built for the node's platform.
	FailureImageUnusable = "ImageUnusable"
	// FailureImagePullBackOff means that the image could not be pulled for another reason, for example
	// because the credentials are missing or rejected, or because the registry is not responding.
	FailureImagePullBackOff = "ImagePullBackOff"
	// FailureInvalidImageName means that the image reference is invalid.
	FailureInvalidImageName = "InvalidImageName"
	// FailureCreateContainerConfigError means that a ConfigMap, Secret or key is missing, or that the
	// security context cannot be satisfied.
	FailureCreateContainerConfigError = "CreateContainerConfigError"
	// FailureCreateContainerError means that the container could not be created or started.
	FailureCreateContainerError = "CreateContainerError"
	// FailureCrashLoopBackOff means that a container terminated and was restarted, and is not
	// ready.
	FailureCrashLoopBackOff = "CrashLoopBackOff"
	// FailureQuotaExceeded means that a ResourceQuota is exceeded.
	FailureQuotaExceeded = "QuotaExceeded"
	// FailurePodSecurityViolation means that the namespace's Pod Security level rejects the pods.
	FailurePodSecurityViolation = "PodSecurityViolation"
	// FailureAdmissionUnavailable means that an admission webhook or the API server could not decide
	// whether to admit the pods, because it did not respond or its response was invalid.
	FailureAdmissionUnavailable = "AdmissionUnavailable"
	// FailurePodRejected means that the API server or an admission plugin rejects the pods for
	// another reason.
	FailurePodRejected = "PodRejected"
	// FailureUnschedulable means that no node is suitable for a pod, or that no scheduler has handled
	// the pod.
	FailureUnschedulable = "Unschedulable"
	// FailureContainerCreating means that a node has not yet set up the network, the volumes or a
	// container of a pod.
	FailureContainerCreating = "ContainerCreating"
	// FailureOtherReleaseRunning means that the release is exclusive, and pods of another release
	// of its group are still running.
	FailureOtherReleaseRunning = "OtherReleaseRunning"
	// FailureReadinessFailing means that a container is running, but does not become ready within the
	// time that its probes allow.
	FailureReadinessFailing = "ReadinessFailing"
	// FailureNameConflict means that a Deployment with the desired name exists, but is not managed
	// by the VersionedMicroservice.
	FailureNameConflict = "NameConflict"
	// FailureInvalidTemplate means that the API server rejects the pod template.
	FailureInvalidTemplate = "InvalidTemplate"
	// FailureForbidden means that the API server rejects the Deployment for another reason.
	FailureForbidden = "Forbidden"
)
