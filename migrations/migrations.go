// Package migrations owns the ClickHouse schema: numbered SQL files, one concern each, never edited
// after a release and written so that they can run again. They are embedded in the binary and run by
// `turnout migrate`, once, before the components start. Nothing else changes the schema.
//
// Migrations only go forward. A binary that is older than the schema it finds warns and works: later
// versions only add.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/clickhouse"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"turnout/internal/chx"
)

//go:embed *.up.sql
var files embed.FS

// Latest is the schema version of this binary.
func Latest() uint {
	names, err := fs.Glob(files, "*.up.sql")
	if err != nil || len(names) == 0 {
		panic("migrations: no embedded files") // the embed directive above guarantees them
	}
	number, _, _ := strings.Cut(names[len(names)-1], "_") // Glob sorts
	version, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		panic("migrations: a file without a number: " + names[len(names)-1])
	}
	return uint(version)
}

// Up brings the schema to Latest and returns the version before and after. It creates the database
// if it is missing. A schema newer than this binary is left as it is: to == from > Latest. A
// migration that broke off is run again. ClickHouse has no lock to hold, so run one at a time.
func Up(ctx context.Context, cfg chx.Config) (from, to uint, err error) {
	if err := createDatabase(ctx, cfg); err != nil {
		return 0, 0, err
	}
	m, done, err := open(cfg)
	if err != nil {
		return 0, 0, err
	}
	defer done()

	from, dirty, err := version(m)
	if err != nil {
		return 0, 0, err
	}
	if from > Latest() {
		return from, from, nil
	}
	if dirty {
		back := int(from) - 1
		if back == 0 {
			back = -1 // what golang-migrate calls "no version"
		}
		if err := m.Force(back); err != nil {
			return from, from, fmt.Errorf("marking migration %d to run again: %w", from, err)
		}
	}

	stopped := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
	defer stopped()
	if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		at, _, _ := version(m)
		return from, at, fmt.Errorf("migrating the schema from version %d, at version %d: %w", from, at, err)
	}
	to, _, err = version(m)
	return from, to, err
}

// Version returns the schema version that the database has: 0 if it has none.
func Version(ctx context.Context, cfg chx.Config) (uint, error) {
	conn, err := chx.Open(cfg)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var found int64
	err = conn.QueryRow(ctx, "SELECT version FROM schema_migrations ORDER BY sequence DESC LIMIT 1").Scan(&found)
	switch {
	case chx.IsCode(err, chx.CodeUnknownTable), chx.IsCode(err, chx.CodeUnknownDatabase), err != nil && strings.Contains(err.Error(), "no rows"):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading the schema version: %w", err)
	}
	return uint(max(found, 0)), nil
}

func createDatabase(ctx context.Context, cfg chx.Config) error {
	conn, err := chx.Open(cfg)
	if err != nil {
		return err
	}
	err = conn.Ping(ctx)
	conn.Close()
	if !chx.IsCode(err, chx.CodeUnknownDatabase) {
		return err
	}
	name := cfg.Database
	cfg.Database = "system" // every server has it and every user may enter it
	if conn, err = chx.Open(cfg); err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+quote(name)); err != nil {
		return fmt.Errorf("creating database %s: %w", name, err)
	}
	return nil
}

func quote(name string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(name) + "`"
}

func open(cfg chx.Config) (*migrate.Migrate, func(), error) {
	db, err := chx.SQL(cfg)
	if err != nil {
		return nil, nil, err
	}
	driver, err := clickhouse.WithInstance(db, &clickhouse.Config{
		DatabaseName:          cfg.Database,
		MultiStatementEnabled: true,
		MigrationsTableEngine: "MergeTree",
	})
	if err != nil {
		db.Close()
		return nil, nil, fmt.Errorf("opening the schema of clickhouse at %s: %w", strings.Join(cfg.Addr, ","), err)
	}
	source, err := iofs.New(files, ".")
	if err != nil {
		db.Close()
		return nil, nil, fmt.Errorf("reading embedded migrations: %w", err)
	}
	m, err := migrate.NewWithInstance("embedded", source, "clickhouse", driver)
	if err != nil {
		db.Close()
		return nil, nil, fmt.Errorf("preparing migrations: %w", err)
	}
	return m, func() { m.Close() }, nil
}

func version(m *migrate.Migrate) (uint, bool, error) {
	v, dirty, err := m.Version()
	if errors.Is(err, migrate.ErrNilVersion) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("reading the schema version: %w", err)
	}
	return v, dirty, nil
}
