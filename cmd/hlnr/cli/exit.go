package cli

import (
	"errors"
	"fmt"
)

// Code is an exit code of the command. Scripts depend on these codes.
type Code int

// The exit codes.
const (
	// ExitYes means that the answer is yes, or the action succeeded.
	ExitYes Code = 0
	// ExitFailed means that the question could not be answered, or the action could not be done.
	ExitFailed Code = 1
	// ExitUsage means that the input is invalid: a flag, an argument, a name that does not exist, or a file.
	ExitUsage Code = 2
	// ExitNo means that the answer is negative, or the action is not possible in the current state.
	ExitNo Code = 3
	// ExitTimeout means that the timeout set by a flag expired before there was an answer.
	ExitTimeout Code = 4
	// ExitWaits means that the release is waiting for a user or for the end of a freeze.
	ExitWaits Code = 5
	// ExitInterrupted means that a signal interrupted the command.
	ExitInterrupted Code = 130
)

// Codes lists the exit codes with their meanings, for help text and the reference.
var Codes = []struct {
	Code    Code
	Meaning string
}{
	{ExitYes, "the answer is yes, or the action succeeded"},
	{ExitFailed, "the command failed, for example because there is no cluster or a permission is missing"},
	{ExitUsage, "invalid input: a flag, an argument, a name that does not exist, or a file"},
	{ExitNo, "the answer is negative, or the action is not possible in the current state"},
	{ExitTimeout, "the timeout expired"},
	{ExitWaits, "the release is waiting for a user or for the end of a freeze"},
	{ExitInterrupted, "a signal interrupted the command"},
}

// Exit is an error that ends the command with an exit code. If Err is nil, the command prints no message.
type Exit struct {
	Code Code
	Err  error
}

// Error returns the message of Err or, if Err is nil, the exit code.
func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *Exit) Unwrap() error { return e.Err }

// Failed returns an error that ends the command with [ExitFailed].
func Failed(err error) error { return &Exit{ExitFailed, err} }

// Usage returns an error that ends the command with [ExitUsage].
func Usage(err error) error { return &Exit{ExitUsage, err} }

// No returns an error that ends the command with [ExitNo]. err may be nil if the output contains the reason.
func No(err error) error { return &Exit{ExitNo, err} }

// TimedOut returns an error that ends the command with [ExitTimeout].
func TimedOut(err error) error { return &Exit{ExitTimeout, err} }

// Waits returns an error that ends the command with [ExitWaits]. err may be nil if the output contains the reason.
func Waits(err error) error { return &Exit{ExitWaits, err} }

// CodeOf returns the exit code of an error. It returns [ExitYes] for nil, and [ExitFailed] for an error without an exit code.
func CodeOf(err error) Code {
	if err == nil {
		return ExitYes
	}
	var e *Exit
	if errors.As(err, &e) {
		return e.Code
	}
	return ExitFailed
}
