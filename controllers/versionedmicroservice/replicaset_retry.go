package versionedmicroservice

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/apply"
)

// The time between two requested retries is an eighth of the time from the start of the failure to the first of the two, but at least
// retryInterval and at most maxRetryInterval. Therefore, a failure that lasts, for example because the API server is overloaded, does not
// cause many writes for many releases.
const (
	retryInterval    = 15 * time.Second
	maxRetryInterval = 2 * time.Minute
)

// A ReplicaSet whose pods are rejected retries with a back-off of up to 16 minutes, even if the cause no
// longer exists. A write to the ReplicaSet makes it retry immediately, and the Deployment controller copies a
// Deployment's annotations to its ReplicaSet. Therefore, this controller changes an annotation on the
// Deployment: after a change to the ResourceQuotas, or at these intervals while admission is
// unavailable, because no watch reports when admission is available again. It does so only while pods are
// rejected because of one of these causes.

// retry is a requested retry.
type retry struct {
	at time.Time
	// quota is the hash of the quotas at the time of the retry.
	quota string
}

func (r retry) String() string {
	return strings.TrimSpace(r.at.UTC().Format(time.RFC3339) + " " + r.quota)
}

// retryOf reads the latest retry from a Deployment's annotation. It returns the zero retry if there is no valid annotation.
func retryOf(d *appsv1.Deployment) retry {
	at, quota, _ := strings.Cut(d.Annotations[resources.AnnotationRetry], " ")
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return retry{}
	}
	return retry{at: t, quota: quota}
}

// planRetry returns the retry that is due now, or nil. It also returns the time of a later retry; zero if none is planned.
func planRetry(o *observed, now time.Time) (due *retry, requeueAt time.Time) {
	d := o.own()
	cause := replicaFailure(d).reason
	if cause != v1alpha1.FailureQuotaExceeded && cause != v1alpha1.FailureAdmissionUnavailable {
		return nil, time.Time{}
	}
	last := retryOf(d)
	if cause == v1alpha1.FailureQuotaExceeded && !last.at.IsZero() && last.quota == o.quota {
		return nil, time.Time{} // the watch for quotas reports changes
	}
	if last.at.After(now) {
		last.at = time.Time{} // The clock of the replica that wrote the annotation was ahead.
	}
	since, wait := last.at, retryInterval
	for _, c := range d.Status.Conditions {
		// At first, the ReplicaSet itself retries often enough.
		switch began := c.LastTransitionTime.Time; {
		case c.Type != appsv1.DeploymentReplicaFailure:
		case began.After(since):
			since = began
		case cause == v1alpha1.FailureAdmissionUnavailable:
			wait = min(maxRetryInterval, max(retryInterval, since.Sub(began)/8))
		}
	}
	if since.After(now) {
		since = now // a clock was set back
	}
	if next := since.Add(wait); now.Before(next) {
		return nil, next
	}
	return &retry{at: now, quota: o.quota}, time.Time{}
}

// quotaHash returns the hash of the limits and usage of quotas.
func quotaHash(quotas []corev1.ResourceQuota) (string, error) {
	type counted struct {
		Name       string
		Hard, Used corev1.ResourceList
	}
	var all []counted
	for _, q := range quotas {
		all = append(all, counted{q.Name, q.Status.Hard, q.Status.Used})
	}
	slices.SortFunc(all, func(a, b counted) int { return cmp.Compare(a.Name, b.Name) })
	return apply.Hash(all)
}
