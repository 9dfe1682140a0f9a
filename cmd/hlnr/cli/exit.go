package cli

import (
	"errors"
	"fmt"
)

// Code is an exit code of the command. Scripts depend on it.
type Code int

// The exit codes.
const (
	// ExitYes: the answer is yes, or the act was done.
	ExitYes Code = 0
	// ExitFailed: the question could not be answered, or the act could not be done.
	ExitFailed Code = 1
	// ExitUsage: the question is wrong: a flag, an argument, a name that does not exist, or a file.
	ExitUsage Code = 2
	// ExitNo: a negative answer, or the action is not possible in the current state.
	ExitNo Code = 3
	// ExitTimeout: the timeout of a flag expired before there was an answer.
	ExitTimeout Code = 4
	// ExitWaits: the subject of the question waits for a person.
	ExitWaits Code = 5
	// ExitInterrupted: a signal ended the command.
	ExitInterrupted Code = 130
)

// Codes lists the exit codes with their meaning, for help and reference.
var Codes = []struct {
	Code    Code
	Meaning string
}{
	{ExitYes, "yes, or done"},
	{ExitFailed, "could not be answered or done, for example without a cluster or a permission"},
	{ExitUsage, "invalid input: a flag, an argument, a name that does not exist, or a file"},
	{ExitNo, "no, or the action is not possible in the current state"},
	{ExitTimeout, "the time of --timeout has expired"},
	{ExitWaits, "it waits for a person"},
	{ExitInterrupted, "interrupted by a signal"},
}

// Exit ends the command with a code. Without an error nothing is printed.
type Exit struct {
	Code Code
	Err  error
}

// Error returns the message.
func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Exit) Unwrap() error { return e.Err }

// Failed ends the command with [ExitFailed].
func Failed(err error) error { return &Exit{ExitFailed, err} }

// Usage ends the command with [ExitUsage].
func Usage(err error) error { return &Exit{ExitUsage, err} }

// No ends the command with [ExitNo]. err may be nil if the output has the reason.
func No(err error) error { return &Exit{ExitNo, err} }

// TimedOut ends the command with [ExitTimeout].
func TimedOut(err error) error { return &Exit{ExitTimeout, err} }

// Waits ends the command with [ExitWaits]. err may be nil if the output has the reason.
func Waits(err error) error { return &Exit{ExitWaits, err} }

// CodeOf returns the exit code of an error; [ExitYes] for nil.
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
