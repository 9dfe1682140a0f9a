// Package log has the logger settings, which nothing in this module uses.
package log

import "log/slog"

// SetDefault does nothing.
func SetDefault(*slog.Logger) {}
