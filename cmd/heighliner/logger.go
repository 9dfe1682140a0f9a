package main

import (
	"slices"

	"github.com/go-logr/logr"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// newLogger returns the logger of the manager.
func newLogger(options *zap.Options) logr.Logger {
	return zap.New(zap.UseFlagOptions(options), zap.RawZapOpts(uberzap.WrapCore(func(core zapcore.Core) zapcore.Core { return lateCore{Core: core} })))
}

// lateCore is a zapcore.Core that encodes the fields of a logger when an entry is written. By default, zap encodes them when the logger
// is created, and each reconcile creates several loggers, most of which write nothing.
type lateCore struct {
	zapcore.Core
	fields []zapcore.Field
}

// With implements zapcore.Core.
func (c lateCore) With(fields []zapcore.Field) zapcore.Core {
	return lateCore{Core: c.Core, fields: slices.Concat(c.fields, fields)}
}

// Check implements zapcore.Core.
func (c lateCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) {
		return checked
	}
	return c.Core.With(c.fields).Check(entry, checked)
}
