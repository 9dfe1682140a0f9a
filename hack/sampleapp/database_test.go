package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestStatements(t *testing.T) {
	for job, want := range map[string][]string{
		sqlCreate: {`CREATE SCHEMA IF NOT EXISTS "pr-7"`, `CREATE TABLE IF NOT EXISTS "pr-7"."visits" (at timestamptz NOT NULL DEFAULT now(), version text NOT NULL)`},
		sqlDrop:   {`DROP SCHEMA IF EXISTS "pr-7" CASCADE`},
	} {
		if got := statements(job, "pr-7"); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", job, got, want)
		}
	}
	if got := statements(sqlDrop, `a"; DROP TABLE b; --`); got[0] != `DROP SCHEMA IF EXISTS "a""; DROP TABLE b; --" CASCADE` {
		t.Errorf("unexpected statements for a name with quotes: %q", got)
	}
}

func TestDatabaseFlags(t *testing.T) {
	const url = "postgres://shop:secret@127.0.0.1:5432/shop"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--database", url, "--schema", "pr-7"}, ""},
		{[]string{"--database", url, "--schema", "pr-7", "--job-sql", "drop"}, ""},
		{[]string{"--database", url}, "requires schema"},
		{[]string{"--job-sql", "create", "--schema", "pr-7"}, "requires database"},
		{[]string{"--database", url, "--schema", "pr-7", "--job-sql", "move"}, `must be create or drop, not "move"`},
		{[]string{"--database", "postgres://shop:secret@[", "--schema", "pr-7"}, "must be a URL such as"},
	} {
		_, err := ParseConfig(c.args, func(string) string { return "" }, io.Discard)
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%q: the error contains the password: %v", c.args, err)
		}
	}
}
