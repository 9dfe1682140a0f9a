// Package log contains the settings of the logger, which nothing in this module uses.
package log

import "log/slog"

// SetDefault does nothing.
func SetDefault(*slog.Logger) {}
