package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockFile locks the file at path and returns a function that unlocks it. It calls waiting once if
// another process has locked the file. If the previous owner removed the file, lockFile creates and
// locks a new file.
func lockFile(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	reported := false
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
		if err != nil {
			return nil, fmt.Errorf("open lock: %w", err)
		}
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			if same(file, path) {
				return func() { _ = file.Close() }, nil
			}
			_ = file.Close()
			continue
		}
		_ = file.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("take lock %s: %w", path, err)
		}
		if !reported {
			waiting()
			reported = true
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("take lock %s: %w", path, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func same(file *os.File, path string) bool {
	held, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(held, named)
}
