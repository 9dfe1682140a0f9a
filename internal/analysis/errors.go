package analysis

import (
	"fmt"
	"time"
)

// Reason is a CamelCase word that states why a metric could not be measured. The set of reasons is fixed, because reasons are
// used as label values of metrics.
type Reason string

// These are the reasons.
const (
	// NotANumber is a response of NaN.
	NotANumber Reason = "NotANumber"
	// Infinite is a response of plus or minus infinity.
	Infinite Reason = "Infinite"
	// SeveralSeries is a vector that contains more than one series.
	SeveralSeries Reason = "SeveralSeries"
	// WrongType is a response that is not a number: a range vector, a string, a histogram, or JSON of another type.
	WrongType Reason = "WrongType"
	// WrongUnit is a number that is impossible for the metric: a percentage below 0 or above 100, or a negative duration.
	WrongUnit Reason = "WrongUnit"
	// WrongTime is a response for a time other than the requested time.
	WrongTime Reason = "WrongTime"
	// ZeroBaseline is a ratio whose divisor is 0.
	ZeroBaseline Reason = "ZeroBaseline"
	// Timeout means that there was no response in time.
	Timeout Reason = "Timeout"
	// Throttled is a 429 response, a 503 response with Retry-After, or another response that reports throttling.
	Throttled Reason = "Throttled"
	// Unreachable is a connection that could not be made, or was lost.
	Unreachable Reason = "Unreachable"
	// Refused is an address that the manager does not connect to.
	Refused Reason = "Refused"
	// Unauthorized is a 401 or 403 response, or another response that rejects the credentials.
	Unauthorized Reason = "Unauthorized"
	// BadQuery is a query, template or expression that cannot be evaluated.
	BadQuery Reason = "BadQuery"
	// ClientError is another 4xx response, or a redirect that is not followed.
	ClientError Reason = "ClientError"
	// ServerError is a 5xx response.
	ServerError Reason = "ServerError"
	// TooLarge is a response with a body above the limit.
	TooLarge Reason = "TooLarge"
	// BadAnswer is a response that cannot be parsed.
	BadAnswer Reason = "BadAnswer"
	// NoProvider is a query without a provider.
	NoProvider Reason = "NoProvider"
	// BadSecret is a Secret that does not exist or cannot be read, or in which a required key is missing or invalid.
	BadSecret Reason = "BadSecret"
)

// Error describes why a metric could not be measured.
type Error struct {
	// Reason is the reason as one word.
	Reason Reason
	// Message contains the cause and the fix, but no credentials.
	Message string
	// RetryAfter is the delay that the provider requested; 0 if it requested none.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return string(e.Reason) + ": " + e.Message }

func errorf(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
