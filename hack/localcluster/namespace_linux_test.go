package main

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseMount(t *testing.T) {
	tests := map[string]struct {
		line string
		want mount
		ok   bool
	}{
		"plain":    {`36 35 98:0 / /mnt rw,noatime - ext3 /dev/root rw`, mount{"/mnt", "ext3"}, true},
		"optional": {`36 35 98:0 / /run/x rw master:1 shared:2 - tmpfs none rw`, mount{"/run/x", "tmpfs"}, true},
		"space":    {`36 35 98:0 / /a\040b rw - overlay none rw`, mount{"/a b", "overlay"}, true},
		"cut off":  {`36 35 98:0 / /mnt rw`, mount{}, false},
		"empty":    {``, mount{}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := parseMount(test.line)
			if got != test.want || ok != test.ok {
				t.Errorf("got %v, %t, want %v, %t", got, ok, test.want, test.ok)
			}
		})
	}
}

func TestMarked(t *testing.T) {
	block := []byte("PATH=/bin\x00" + mark + "=/var/lib/a\x00HOME=/\x00")
	for runDir, want := range map[string]bool{"/var/lib/a": true, "/var/lib": false, "/var/lib/ab": false, "": false} {
		if got := marked(block, runDir); got != want {
			t.Errorf("marked(%q) = %t, want %t", runDir, got, want)
		}
	}
}

func TestInCgroup(t *testing.T) {
	tests := map[string]struct {
		groups string
		want   bool
	}{
		"version 1":               {"5:memory:/a/kubepods/pod1/c\n1:cpu:/\n", true},
		"version 2":               {"0::/a/kubepods/pod1/c\n", true},
		"pods of another cluster": {"0::/kubepods/pod1/c\n", false},
		"longer name":             {"0::/ab/kubepods\n", false},
		"root":                    {"0::/\n", false},
		"empty":                   {"", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := inCgroup([]byte(test.groups), "a"); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestAncestors(t *testing.T) {
	list := ancestors(os.Getpid())
	if len(list) < 2 || list[0] != os.Getpid() || list[1] != os.Getppid() {
		t.Errorf("got %v, want a list that begins with %d, %d", list, os.Getpid(), os.Getppid())
	}
	if slices.Contains(list, 0) {
		t.Errorf("got %v, want no 0", list)
	}
}

func TestKeepFiles(t *testing.T) {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	given, err := unix.Dup(int(file.Fd())) // This file is like a file that a caller passes: started processes inherit the file.
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(given)
	if err := keepFiles(); err != nil {
		t.Fatal(err)
	}
	for fd, want := range map[int]int{given: unix.FD_CLOEXEC, 1: 0, 2: 0} {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags != want {
			t.Errorf("flags of file %d are %d, %v, want %d", fd, flags, err, want)
		}
	}
}
