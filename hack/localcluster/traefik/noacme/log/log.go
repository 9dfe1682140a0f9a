// Package log holds the logger that nothing here writes to.
package log

import "log/slog"

// SetDefault keeps nothing.
func SetDefault(*slog.Logger) {}
