package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/internal/apply"
)

// Class defines how a controller handles an error.
type Class string

// The classes of errors.
const (
	// Terminal means that a user must change something. A watch or a slow timer requeues the object.
	Terminal Class = "Terminal"
	// Waiting means that the error is expected and needs no action. A watch requeues the object, or a
	// timer does so after the time in Error.After.
	Waiting Class = "Waiting"
	// Transient means that the reconcile is retried with back-off.
	Transient Class = "Transient"
)

// Error is an error with a class, and a reason for a condition.
type Error struct {
	// Class is the class of the error.
	Class Class
	// Reason is the reason for a condition. It is one CamelCase word.
	Reason string
	// After is the time after which to check again if no event occurs. 0 means never.
	After time.Duration
	// Err is the cause.
	Err error
}

// Error returns the text of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// NewTerminal wraps err as an error that only a change made by a user can fix.
func NewTerminal(reason string, err error) *Error {
	return &Error{Class: Terminal, Reason: reason, Err: err}
}

// NewWaiting wraps err as an error that needs no action. A watch requeues the object, or a timer does so after the given
// duration. If after is 0, there is no timer.
func NewWaiting(reason string, after time.Duration, err error) *Error {
	return &Error{Class: Waiting, Reason: reason, After: after, Err: err}
}

// The reasons that Classify sets for errors without a reason.
const (
	ReasonNameConflict = "NameConflict"
	ReasonTerminating  = "Terminating"
	ReasonInvalid      = "Invalid"
	ReasonForbidden    = "Forbidden"
	ReasonConflict     = "Conflict"
	ReasonFailed       = "Failed"
)

// ReasonSecretsForbidden means that the manager lacks permission to read the Secrets of a
// namespace.
const ReasonSecretsForbidden = "SecretsForbidden"

// SecretForbidden returns the error for a Secret that the manager is not allowed to read. err is the response
// of the API server. The error is Terminal. The Secret is checked again after a minute, because permissions are not
// watched.
func SecretForbidden(namespace, name string, err error) *Error {
	return &Error{Class: Terminal, Reason: ReasonSecretsForbidden, After: afterForeign, Err: fmt.Errorf(
		"the manager has no permission to get Secrets in namespace %q: apply config/components/read-secrets there to bind the ClusterRole heighliner-read-secrets: get Secret %q: %w", namespace, name, err)}
}

// The times after which to check again for changes that a watch may not report.
const (
	afterForeign     = time.Minute
	afterTerminating = 5 * time.Second
	afterRefused     = 5 * time.Minute
)

// Classify returns err with a class and a reason, or nil if err is nil. If err wraps an Error, its class is unchanged.
//
// An apply.ForeignError is Terminal, and so is the error for an invalid or forbidden request. The error for an object or a
// namespace that is being deleted is Waiting. All other errors are Transient, including conflicts.
func Classify(err error) *Error {
	if err == nil {
		return nil
	}
	if own := new(Error); errors.As(err, &own) {
		return &Error{Class: own.Class, Reason: own.Reason, After: own.After, Err: err}
	}
	if foreign := new(apply.ForeignError); errors.As(err, &foreign) {
		return &Error{Class: Terminal, Reason: ReasonNameConflict, After: afterForeign, Err: err}
	}
	if going := new(apply.TerminatingError); errors.As(err, &going) {
		return &Error{Class: Waiting, Reason: ReasonTerminating, After: afterTerminating, Err: err}
	}
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return &Error{Class: Terminal, Reason: ReasonInvalid, After: afterRefused, Err: err}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), namespaceGone(err):
		return &Error{Class: Waiting, Reason: ReasonTerminating, After: 0, Err: err}
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return &Error{Class: Terminal, Reason: ReasonForbidden, After: MaxBackoff, Err: err}
	case apierrors.IsForbidden(err):
		return &Error{Class: Terminal, Reason: ReasonForbidden, After: afterRefused, Err: err}
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return &Error{Class: Transient, Reason: ReasonConflict, Err: err}
	}
	return &Error{Class: Transient, Reason: ReasonFailed, Err: err}
}

// namespaceGone reports whether a write failed because its namespace was deleted. The cache
// may not show the deletion yet.
func namespaceGone(err error) bool {
	var answer apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &answer) && answer.Status().Details != nil && answer.Status().Details.Kind == "namespaces"
}

// afterConflict is how long a reconcile waits for the cache after a conflict.
const afterConflict = 200 * time.Millisecond

// Again ends a failed reconcile, which is retried with back-off. A conflict is not an error, and neither is the response that an object to be created
// already exists: both mean that the cache is outdated. In these cases, the reconcile is retried after afterConflict, without an error report.
func Again(ctx context.Context, err error) (reconcile.Result, error) {
	if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, err
	}
	log.FromContext(ctx).V(1).Info("reconcile dropped: the cache is outdated", "cause", err.Error())
	return reconcile.Result{RequeueAfter: afterConflict}, nil
}
