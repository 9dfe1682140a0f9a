package analysis

import (
	"fmt"
	"time"
)

// Reason is why a metric could not be measured, one CamelCase word. There are as
// many as here: they label the manager's metrics.
type Reason string

// The reasons.
const (
	// NotANumber is an answer of NaN.
	NotANumber Reason = "NotANumber"
	// Infinite is an answer without bound, up or down.
	Infinite Reason = "Infinite"
	// SeveralSeries is a vector with more than one series.
	SeveralSeries Reason = "SeveralSeries"
	// WrongType is an answer that is not a number: a range vector, a string, a
	// histogram, JSON of another type.
	WrongType Reason = "WrongType"
	// WrongUnit is a number that the metric cannot have: a percentage above 100, a
	// negative time.
	WrongUnit Reason = "WrongUnit"
	// WrongTime is an answer that speaks of another time than was asked for.
	WrongTime Reason = "WrongTime"
	// ZeroBaseline is a ratio to 0.
	ZeroBaseline Reason = "ZeroBaseline"
	// Timeout means that there was no answer in time.
	Timeout Reason = "Timeout"
	// Throttled is an answer 429, or 503 with the time to wait.
	Throttled Reason = "Throttled"
	// Unreachable is a connection that could not be made, or was lost.
	Unreachable Reason = "Unreachable"
	// Refused is an address that the manager does not ask.
	Refused Reason = "Refused"
	// Unauthorized is an answer 401 or 403.
	Unauthorized Reason = "Unauthorized"
	// BadQuery is a query, template or expression that cannot be evaluated.
	BadQuery Reason = "BadQuery"
	// ClientError is another answer 4xx, or a redirect that is not followed.
	ClientError Reason = "ClientError"
	// ServerError is an answer 5xx.
	ServerError Reason = "ServerError"
	// TooLarge is an answer with a body above the limit.
	TooLarge Reason = "TooLarge"
	// BadAnswer is an answer that cannot be read.
	BadAnswer Reason = "BadAnswer"
	// NoProvider is a query without a provider.
	NoProvider Reason = "NoProvider"
	// BadSecret is a Secret that is missing, or has not the keys that are needed.
	BadSecret Reason = "BadSecret"
)

// Error describes why a metric could not be measured.
type Error struct {
	// Reason in one word.
	Reason Reason
	// Message names the cause and the fix. It holds no credentials.
	Message string
	// RetryAfter is how long the provider wants to be left alone; 0: it did not say.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return string(e.Reason) + ": " + e.Message }

func errorf(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
