//go:build linux

package harness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// databaseUser is both the database user and the operating system user that runs PostgreSQL, which refuses to
// run as root.
const databaseUser = "postgres"

// Database is a database for applications in the cluster. This process starts the database server from Debian's
// PostgreSQL package.
type Database struct {
	// URL is the URL for pods, with the password.
	URL string

	port, password, dir string
	release             func() // Ends the reservation of the port.
	server              *exec.Cmd
	listener            net.Listener
}

// StartDatabase starts a PostgreSQL server with an empty database on an unused loopback port, and makes the
// server reachable for pods. Stop shuts down the server. Debian's package "postgresql" is required.
func (c *Cluster) StartDatabase(ctx context.Context) (*Database, error) {
	port, release, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	d := &Database{port: port, release: release, password: rand.Text()}
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start PostgreSQL: %w", err), d.Stop())
	}
	if d.listener, err = c.listenForPods(); err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	go forward(d.listener, "127.0.0.1:"+port)
	d.URL = fmt.Sprintf("postgres://%s:%s@%s/postgres", databaseUser, d.password, d.listener.Addr())
	err = (Waiter{Every: 100 * time.Millisecond}).For(ctx, "PostgreSQL to answer", func(ctx context.Context) (bool, string, error) {
		_, err := d.query(ctx, "SELECT 1")
		return err == nil, fmt.Sprint(err), nil
	})
	if err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	return d, nil
}

// start creates the server's files, and starts the server.
func (d *Database) start(ctx context.Context) error {
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(programs) == 0 {
		return errors.Join(errors.New("PostgreSQL is not installed: no /usr/lib/postgresql/*/bin"), err)
	}
	bin := slices.Max(programs)
	account, err := user.Lookup(databaseUser)
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(account.Uid)
	gid, failed := strconv.Atoi(account.Gid)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	if d.dir, err = os.MkdirTemp("", "database-"); err != nil {
		return err
	}
	password := filepath.Join(d.dir, "password")
	if err := errors.Join(os.WriteFile(password, []byte(d.password), 0o600), os.Chown(password, uid, gid), os.Chown(d.dir, uid, gid)); err != nil {
		return err
	}
	data := filepath.Join(d.dir, "data")
	as := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	create := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", databaseUser, "-A", "scram-sha-256", "--pwfile", password, "--no-sync")
	create.SysProcAttr, create.Dir = as, d.dir
	if out, err := create.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-p", d.port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+d.dir, "-c", "fsync=off")
	server.SysProcAttr, server.Dir = as, d.dir
	if err := server.Start(); err != nil {
		return err
	}
	d.server = server
	return nil
}

// Stop shuts down the server, closes its connections, and removes its files.
func (d *Database) Stop() error {
	var errs []error
	if d.listener != nil {
		errs = append(errs, d.listener.Close())
	}
	if d.server != nil {
		errs = append(errs, d.server.Process.Signal(syscall.SIGQUIT)) // SIGQUIT does not wait for connections.
		_ = d.server.Wait()
	}
	if d.dir != "" {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	d.release()
	return errors.Join(errs...)
}

// Schemas returns the names of all schemas that applications created, sorted.
func (d *Database) Schemas(ctx context.Context) ([]string, error) {
	text, err := d.query(ctx, "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%' AND nspname NOT IN ('public', 'information_schema') ORDER BY 1")
	return strings.Fields(text), err
}

// Visits returns the number of rows in the visits table of a schema.
func (d *Database) Visits(ctx context.Context, schema string) (int, error) {
	text, err := d.query(ctx, fmt.Sprintf("SELECT count(*) FROM %q.visits", schema))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func (d *Database) query(ctx context.Context, statement string) (string, error) {
	psql := exec.CommandContext(ctx, "psql", "-h", "127.0.0.1", "-p", d.port, "-U", databaseUser, "-At", "-c", statement)
	psql.Env = append(os.Environ(), "PGPASSWORD="+d.password)
	out, err := psql.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, text)
	}
	return text, nil
}
