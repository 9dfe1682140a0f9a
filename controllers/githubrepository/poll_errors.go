package githubrepository

import (
	"context"
	"errors"
	"time"

	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/status"
)

// limited reports whether a request failed because GitHub limits the rate, or because the remaining requests are
// reserved for writes.
func limited(err error) bool {
	kind := github.KindOf(err)
	return kind == github.RateLimited || kind == github.Reserved
}

// retryTime returns when requests are allowed again.
func retryTime(err error) time.Time {
	var e *github.Error
	if errors.As(err, &e) {
		return e.RetryAt
	}
	return time.Time{}
}

// transient reports whether a retry may succeed without a fix by a user.
func transient(err error) bool {
	var e *github.Error
	return !errors.As(err, new(*status.Error)) && (!errors.As(err, &e) || e.Kind.Transient())
}

// failure returns the condition reason and message for an error.
func failure(err error) (reason, message string) {
	var e *github.Error
	var s *status.Error
	switch {
	case errors.As(err, &e):
		return string(e.Kind), e.Error()
	case errors.As(err, &s):
		return s.Reason, s.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "Unreachable", "poll GitHub: timed out after two minutes; the results so far are kept, and the next poll requests the rest"
	}
	return "Failed", err.Error()
}
