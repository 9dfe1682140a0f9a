package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// sqlTimeout is the timeout of a statement.
const sqlTimeout = 5 * time.Second

// These are the values of Config.JobSQL.
const (
	sqlCreate = "create"
	sqlDrop   = "drop"
)

// statements returns the SQL statements for a Job. The create Job creates the schema and an empty table, unless
// they already exist. The drop Job drops the schema with its content, if the schema exists.
func statements(job, schema string) []string {
	name := pgx.Identifier{schema}.Sanitize()
	if job == sqlDrop {
		return []string{"DROP SCHEMA IF EXISTS " + name + " CASCADE"}
	}
	return []string{
		"CREATE SCHEMA IF NOT EXISTS " + name,
		"CREATE TABLE IF NOT EXISTS " + pgx.Identifier{schema, "visits"}.Sanitize() + " (at timestamptz NOT NULL DEFAULT now(), version text NOT NULL)",
	}
}

// RunSQL runs as the Job of a hook: it creates or drops Config.Schema in Config.Database.
func RunSQL(ctx context.Context, config Config, out io.Writer) error {
	db, err := sql.Open("pgx", config.Database)
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	for _, statement := range statements(config.JobSQL, config.Schema) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s schema %s: %w", config.JobSQL, config.Schema, err)
		}
	}
	_, err = fmt.Fprintf(out, "%s of schema %s is done\n", config.JobSQL, config.Schema)
	return err
}

// visits records each GET /visits request in a table of a schema.
type visits struct {
	db                     *sql.DB
	insert, count, version string
}

// openVisits returns nil if no database is configured. It does not connect to the database.
func openVisits(config Config) (*visits, error) {
	if config.Database == "" {
		return nil, nil
	}
	db, err := sql.Open("pgx", config.Database)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	table := pgx.Identifier{config.Schema, "visits"}.Sanitize()
	return &visits{db: db, version: config.Version, count: "SELECT count(*) FROM " + table, insert: "WITH added AS (INSERT INTO " + table + " (version) VALUES ($1)) SELECT count(*) + 1 FROM " + table}, nil
}

// add records a visit, and returns the total number of visits.
func (v *visits) add(ctx context.Context) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, sqlTimeout)
	defer cancel()
	if err := v.db.QueryRowContext(ctx, v.insert, v.version).Scan(&n); err != nil {
		return 0, fmt.Errorf("record a visit: %w", err)
	}
	return n, nil
}

// ready returns nil if the table can be read, and otherwise the error.
func (v *visits) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sqlTimeout)
	defer cancel()
	var n int
	if err := v.db.QueryRowContext(ctx, v.count).Scan(&n); err != nil {
		return fmt.Errorf("read visits: %w", err)
	}
	return nil
}

// ServeHTTP records a visit, and responds with the total number of visits.
func (v *visits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := v.add(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, n)
}

// validateDatabase validates the database flags.
func (c Config) validateDatabase() error {
	switch {
	case c.JobSQL != "" && c.JobSQL != sqlCreate && c.JobSQL != sqlDrop:
		return fmt.Errorf("check job-sql: must be %s or %s, not %q", sqlCreate, sqlDrop, c.JobSQL)
	case c.JobSQL != "" && c.Database == "":
		return errors.New("check job-sql: requires database")
	case c.Database != "" && c.Schema == "":
		return errors.New("check database: requires schema")
	case c.Database == "":
		return nil
	}
	if _, err := pgx.ParseConfig(c.Database); err != nil {
		return errors.New("check database: must be a URL such as postgres://user:password@127.0.0.1:5432/shop") // The original error may contain the password.
	}
	return nil
}
