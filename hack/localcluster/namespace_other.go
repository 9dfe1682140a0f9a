//go:build !linux

package main

import (
	"errors"
	"syscall"
)

var errNotLinux = errors.New("check system: the local cluster needs Linux (namespaces, cgroups, a kubelet): " + elsewhere)

func requireHost() error { return errNotLinux }

func createNamespace(string) error                   { return errNotLinux }
func inNamespace(string, func() error) error         { return errNotLinux }
func configureNamespace(string) error                { return errNotLinux }
func ownMounts() *syscall.SysProcAttr                { return nil }
func keepFiles() error                               { return errNotLinux }
func hideHost(string) error                          { return errNotLinux }
func createCgroup(string) error                      { return errNotLinux }
func removeCgroup(string) error                      { return errNotLinux }
func mountsBelow(string) ([]string, error)           { return nil, errNotLinux }
func unmountBelow(string) error                      { return errNotLinux }
func clusterProcesses(string, string) ([]int, error) { return nil, errNotLinux }
