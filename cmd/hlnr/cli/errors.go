package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"regexp"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/exec"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// installHint describes how to install the CRDs that this version of the command needs.
const installHint = "install Heighliner with Helm, with \"kubectl apply -k\" and your overlay, or with \"make install IMG=...\" in the repository of Heighliner; this requires the permissions of a cluster administrator"

// Explain converts an error from a command to an [Exit] with an exit code and a message about the cause and the fix. It
// returns an [Exit] unchanged.
func (f *Factory) Explain(ctx context.Context, err error) error {
	var e *Exit
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, syscall.EPIPE):
		return &Exit{Code: ExitFailed} // The reader of the output, such as head, has exited.
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled):
		return &Exit{ExitInterrupted, errors.New("interrupted")}
	}
	for _, explain := range []func(error) error{f.explainKubeconfig, explainConnection, explainKind, f.explainStatus} {
		if found := explain(err); found != nil {
			return found
		}
	}
	return Failed(err)
}

// explainKubeconfig converts kubeconfig errors, which occur before any request.
func (f *Factory) explainKubeconfig(err error) error {
	switch text := err.Error(); {
	case clientcmd.IsEmptyConfig(err):
		return Failed(errors.New("no cluster is configured: set --kubeconfig or KUBECONFIG to a kubeconfig, or create ~/.kube/config"))
	case clientcmd.IsContextNotFound(err) || strings.Contains(text, "context was not found for specified context") || strings.Contains(text, "does not exist") && strings.Contains(text, "context "):
		name := *f.flags.Context
		raw, rawErr := f.Kubeconfig().RawConfig()
		if rawErr != nil {
			return Usage(err)
		}
		if name == "" {
			name = raw.CurrentContext
		}
		var names []string
		for n := range raw.Contexts {
			names = append(names, n)
		}
		return Unknown("context in the kubeconfig", name, names)
	case strings.Contains(text, "Invalid timeout value"):
		return Usage(fmt.Errorf("--request-timeout: %q is not a duration: use a number of seconds, or a duration such as 30s or 2m", *f.flags.Timeout))
	case clientcmd.IsConfigurationInvalid(err):
		return Usage(fmt.Errorf("the kubeconfig is invalid: %w: correct the file, or set --kubeconfig or --context", err))
	case errors.Is(err, fs.ErrNotExist) && *f.flags.KubeConfig != "" && strings.Contains(text, *f.flags.KubeConfig):
		return Usage(fmt.Errorf("--kubeconfig: %w", err))
	case unloaded.MatchString(text):
		m := unloaded.FindStringSubmatch(text)
		cause := ""
		if _, after, found := strings.Cut(m[2], m[1]+": "); found { // The cause is a system error, such as "read FILE: is a directory".
			cause = " (" + after + ")"
		}
		return Usage(fmt.Errorf("the file %s is not a kubeconfig%s: set --kubeconfig or KUBECONFIG to a kubeconfig", m[1], cause))
	}
	return nil
}

// unloaded matches the message about a file that cannot be loaded as a kubeconfig. The second group is the
// cause, for example an error from a JSON parser.
var unloaded = regexp.MustCompile(`(?s)error loading config file "([^"]*)": (.*)`)

// explainConnection converts errors from requests that received no response.
func explainConnection(err error) error {
	var (
		lookup  *net.DNSError
		address *net.OpError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		plugin  exec.CodeExitError
	)
	switch {
	case errors.As(err, &lookup):
		return Failed(fmt.Errorf("the cluster cannot be reached: the host %s cannot be resolved: check --context and the server in the kubeconfig", lookup.Name))
	case errors.As(err, &unknown), errors.As(err, &name), errors.As(err, &invalid):
		return Failed(fmt.Errorf("the certificate of the API server is not trusted: %w: check certificate-authority in the kubeconfig", err))
	case errors.As(err, &plugin):
		return Failed(fmt.Errorf("the credential plugin in the kubeconfig failed: %w: log in again", err))
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return Failed(fmt.Errorf("the API server did not respond in time: %w: try again, or increase --request-timeout", err))
	case errors.As(err, &address):
		return Failed(fmt.Errorf("the cluster cannot be reached: %w: check --context, and that the cluster is running", address))
	}
	return nil
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// explainKind converts errors for kinds that the API server does not serve.
func explainKind(err error) error {
	if meta.IsNoMatchError(err) {
		return Failed(fmt.Errorf("the cluster lacks a required kind: %w; %s", err, installHint))
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonNotFound {
		return nil
	}
	// The error for a missing object contains a name. The error for a missing resource contains no name.
	if d := status.Status().Details; d == nil || d.Name == "" {
		return Failed(fmt.Errorf("the cluster has no %s: the CRDs of Heighliner are not installed, or do not match the version of this command: %s", v1alpha1.GroupVersion, installHint))
	}
	return nil
}

// refused matches the message about a request that the user lacks permission for.
var refused = regexp.MustCompile(`User "([^"]*)" cannot (\w+) resource "([^"]*)" in API group "([^"]*)"(?: in the namespace "([^"]*)"| at the cluster scope)?`)

// MissingPermission returns the permission that the user lacks according to an error from the API server. It returns nil for other
// errors, such as errors from admission policies.
func MissingPermission(err error) *Permission {
	var s apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &s) {
		return nil
	}
	m := refused.FindStringSubmatch(s.Status().Message)
	if m == nil {
		return nil
	}
	return &Permission{User: m[1], Verb: m[2], Resource: resource(m[3], m[4]), Namespace: m[5]}
}

// explainStatus converts error responses from the API server.
func (f *Factory) explainStatus(err error) error {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return nil
	}
	message := s.Status().Message
	switch {
	case apierrors.IsUnauthorized(err):
		return Failed(errors.New("the API server rejected your credentials (401): log in again, or check the user of the context in the kubeconfig"))
	case apierrors.IsForbidden(err):
		missing := MissingPermission(err)
		if missing == nil {
			return Failed(err) // The error is from an admission policy, whose message contains the fix.
		}
		return Failed(errors.New(Forbidden(*missing)))
	case strings.Contains(message, strictPrefix):
		_, fields, _ := strings.Cut(message, strictPrefix)
		return Failed(fmt.Errorf("the CRDs in the cluster do not match the version of this command, and lack a field that the command writes: %s; nothing was written: %s", fields, installHint))
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return Usage(err)
	case apierrors.IsConflict(err):
		return Failed(fmt.Errorf("the object was changed in the meantime: run the command again (%s)", message))
	case apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return Failed(fmt.Errorf("the API server is busy: try again (%s)", message))
	}
	return nil
}

// strictPrefix precedes the unknown fields in the API server's message.
const strictPrefix = "strict decoding error: "

func resource(plural, group string) string {
	if group == "" {
		return plural
	}
	return plural + "." + group
}

// Permission is a permission that a user might lack.
type Permission struct {
	// User is the user name that the API server reports, or empty if the name is not known.
	User string
	// Verb is the verb of the request, such as patch.
	Verb string
	// Resource is the resource with its group, such as microservices.hlnr.io, or with its subresource, such as pods/log.
	Resource string
	// Namespace is the namespace of the request, or empty for all namespaces.
	Namespace string
}

// Forbidden returns the message about a missing permission, with the user who lacks it and the role that grants it.
func Forbidden(r Permission) string {
	user := "you"
	if r.User != "" {
		user = fmt.Sprintf("you (%s)", r.User)
	}
	scope := "in all namespaces"
	if r.Namespace != "" {
		scope = "in namespace " + r.Namespace
	}
	return fmt.Sprintf("%s cannot %s %s %s%s", user, r.Verb, r.Resource, scope, r.remedy())
}

// remedy describes the role that grants the permission, and how the user can get this role.
func (r Permission) remedy() string {
	write := r.Verb == "patch" || r.Verb == "update" || r.Verb == "create" || r.Verb == "delete"
	var role, who string
	switch plural, _, _ := strings.Cut(r.Resource, "."); {
	case !strings.HasSuffix(r.Resource, "."+v1alpha1.GroupVersion.Group):
		return ": ask an administrator for this permission"
	case write && plural == "versionedmicroservices":
		role, who = "heighliner-decide", "admins of the namespace"
	case write && plural == "freezes":
		role, who = "heighliner-freeze", "admins of the namespace"
	case write && plural == "clusterfreezes":
		return ": ask an administrator for the ClusterRole heighliner-freeze-cluster"
	case write:
		role, who = "heighliner-edit", "users with the role edit or admin in the namespace"
	default:
		role, who = "heighliner-view", "users with the role view, edit or admin in the namespace"
	}
	if r.Namespace == "" {
		return fmt.Sprintf(": ask an administrator for the ClusterRole %s, or specify a namespace with --namespace", role)
	}
	return fmt.Sprintf(": %s have this permission; an admin of the namespace can grant it to you with \"kubectl -n %s create rolebinding NAME --clusterrole=%s --user=USER\"; if these users lack the permission, the ClusterRoles of Heighliner are not installed", who, r.Namespace, role)
}
