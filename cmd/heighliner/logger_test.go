package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func TestLoggerWritesAllFields(t *testing.T) {
	var out bytes.Buffer
	root := newLogger(&zap.Options{DestWriter: &out})
	parent := root.WithName("microservice").WithValues("namespace", "shop")
	first, second := parent.WithValues("name", "web"), parent.WithValues("name", "api")
	first.V(1).Info("not written at the default level")
	second.Info("written", "group", "main")
	first.Error(nil, "failed")

	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("wrote %d lines, want 2:\n%s", len(lines), out.String())
	}
	for i, want := range []map[string]string{
		{"msg": "written", "logger": "microservice", "namespace": "shop", "name": "api", "group": "main", "level": "info"},
		{"msg": "failed", "logger": "microservice", "namespace": "shop", "name": "web", "level": "error"},
	} {
		var got map[string]any
		if err := json.Unmarshal(lines[i], &got); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("line %d: %s is %v, want %q", i, key, got[key], value)
			}
		}
	}
}

func BenchmarkLoggerOfReconcile(b *testing.B) {
	root := newLogger(&zap.Options{DestWriter: new(bytes.Buffer)})
	b.ReportAllocs()
	for b.Loop() {
		root.WithValues("controller", "microservice").WithValues("namespace", "shop", "name", "web").WithValues("reconcileID", "1").V(1).Info("nothing")
	}
}
