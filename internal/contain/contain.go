// Package contain turns panics into errors.
//
// controller-runtime recovers from panics in reconciles, but not in the goroutines that the controllers start for requests to other
// servers. These goroutines process responses from servers that the users of a namespace choose. Without this package, a panic in one of
// them would terminate the manager for all namespaces. This would happen again after each restart, because the manager would send the
// same request again.
//
// contain.go  the conversion of a panic to an error
package contain

import (
	"errors"
	"fmt"
	"runtime/debug"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// ErrPanic is the error for a function that panicked. It does not contain the cause, which may quote a response.
var ErrPanic = errors.New("internal error: please report this, and include the stack trace from the manager's log")

// Panics calls do and returns its error. If do panics, Panics logs the cause with the stack, and returns ErrPanic. do must use
// defer to release its locks and slots.
func Panics(do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log.Log.Error(fmt.Errorf("%v", cause), "a request to another server failed because of a panic: please report this", "stack", string(debug.Stack()))
			err = ErrPanic
		}
	}()
	return do()
}
